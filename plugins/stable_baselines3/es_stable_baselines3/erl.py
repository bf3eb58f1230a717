"""Evolutionary reinforcement learning (Khadka and Tumer 2018, "Evolution-Guided Policy Gradient in Reinforcement
Learning", arXiv 1805.07917, algorithms 1 to 3).
"""  # noqa: D205

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from es_core import seeding
from es_core.config.checks import AUTO, require_positive
from es_core.policies.layered import Layered
from es_core.policies.layers import matrices
from es_core.policies.network import Policy
from es_core.strategies.ga import GA
from es_core.strategies.population import Population
from es_core.strategies.schedules import Schedule
from es_core.strategies.strategy import Diagnostics
from es_core.strategies.transitions import Transitions
from es_stable_baselines3.off_policy import OffPolicyLearner

_TOURNAMENT = 3  # actors in a tournament
_MUTATED = 0.1  # largest share of a matrix's weights that a mutation changes
_SUPER, _RESET = 0.05, 0.05  # shares of these that change a hundred times as much, or are drawn anew
_LIMIT = 1e6  # of a weight


class ERL(GA):
    """Evolves actors by a genetic algorithm, with a learner that takes their transitions, and lends them its actor.

    The last candidate is the learner's actor, with the noise of ``action_noise`` on its actions; all others play
    without. Every few generations the learner's actor also takes the place of the worst. The mean is the champion: the
    actor with the highest fitness, as in the paper.

    Where the paper leaves something open, this is what the authors' program does (mod_neuro_evo.py). It also decides
    where the two differ: a weight w mutates to w + sigma w N(0, 1), where algorithm 3 has w N(0, sigma), which would
    all but erase it.

    Args:
        mean: the first actor ``(d,)``; the other actors, random networks like it, are drawn from the policy.
        population_size: candidates in a generation, the learner's actor included (paper: 11).
        sigma: relative strength of a mutation, or a function of the generation (paper: 0.1).
        seed: root seed.
        policy: the run's policy; None: all parameters are weights of one unit, and there is no learner.
        elites: number of actors that go on unchanged (paper: a tenth of them, or more); None: a tenth.
        mutation: probability with which an actor mutates that is no elite (paper: 0.9).
        inject_every: generations between two injections of the learner's actor (paper: 10, or 1).
        algorithm: learner's algorithm in Stable-Baselines3: "sac", "td3", "ddpg" (the paper's), "tqc" or "dqn"; "auto":
            sac for Box actions, dqn for Discrete ones.
        gradient_steps: gradient steps of the learner for each environment step of a generation (paper: 1).
        learning_starts: environment steps before its first gradient step.
        learner_options: arguments of its algorithm, such as ``{"learning_rate": 0.001, "buffer_size": 1000000}``.

    Attributes:
        learner: learns from the transitions; None: this is evolution alone, and the last candidate the first actor.

    Raises:
        ValueError: a number is out of range, or policy, actions or an option do not fit the learner.
        ImportError: Stable-Baselines3 is not installed.
    """

    defaults: ClassVar[Mapping[str, Any]] = {
        "sigma": 0.1,
        "population_size": 11,
        "policy": "mlp",
        "hidden_sizes": (64, 64),
        "activation": "relu",
        "output_scale": 1.0,
        "observation_normalization": False,
        "action_noise": 0.1,
    }
    resizable = False
    rebuildable = False
    state = ("survivors", "lent")

    def __init__(
        self,
        mean: NDArray[np.float32],
        *,
        population_size: int,
        sigma: float | Schedule,
        seed: int = 0,
        policy: Policy | None = None,
        elites: int | None = None,
        mutation: float = 0.9,
        inject_every: int = 1,
        algorithm: str = AUTO,
        gradient_steps: float = 1.0,
        learning_starts: int = 1000,
        learner_options: Mapping[str, Any] | None = None,
    ) -> None:
        actors = population_size - 1
        if actors < 3:
            raise ValueError(f"population_size must be at least 4, three actors and the learner's; got {actors + 1}")
        super().__init__(mean, population_size=population_size, sigma=sigma, seed=seed, parents=actors)
        self.elites = max(1, actors // 10) if elites is None else elites
        require_positive("elites", self.elites)
        if not self.elites < actors:
            raise ValueError(f"elites must be from 1 to {actors - 1}, fewer than the actors; got {self.elites}")
        if not 0 <= mutation <= 1:
            raise ValueError(f"mutation must be a probability, from 0 to 1; got {mutation}")
        if not (math.isfinite(gradient_steps) and gradient_steps >= 0):
            raise ValueError(f"gradient_steps must be 0 or more for each environment step; got {gradient_steps}")
        require_positive("inject_every", inject_every)
        require_positive("learning_starts", learning_starts)
        self.mutation, self.inject_every = mutation, inject_every
        self.gradient_steps, self.learning_starts = gradient_steps, learning_starts
        if not isinstance(learner_options, Mapping | None):
            raise ValueError(f"learner_options must be a dict of its algorithm's arguments, got {learner_options!r}")
        self.learner: OffPolicyLearner | None = None
        if policy is not None:
            options = learner_options or {}
            self.learner = OffPolicyLearner(policy, self.mean, algorithm=algorithm, options=options, seed=seed)
            if learning_starts > self.learner.capacity:
                raise ValueError(
                    f"learning_starts={learning_starts}: the learner keeps its last {self.learner.capacity} steps, and "
                    "would never start: raise buffer_size (in learner_options), or lower it"
                )
        self._episodes: Sequence[Transitions] | None = None
        self._layers = policy.layers if isinstance(policy, Layered) else None
        self.lent = self.mean.copy()  # the learner's actor
        for index in range(1, actors):
            drawn = seeding.derive(seed, seeding.Purpose.ACTOR, 0, index)
            self.survivors[index] = (
                self._mutant(self.mean, seeding.generator(drawn)) if policy is None else policy.initial(drawn)
            )

    def draw(self) -> Population:
        """The actors as they are, the champion first; then the learner's."""
        count = self.population_size
        return Population(
            generation=self.generation,
            base=np.concatenate([self.survivors, self.lent[np.newaxis]]),
            parent=np.arange(count),
            scale=self.sigma,  # of mutations, which are done
            noise_seed=np.zeros(count, np.int64),
            sign=np.zeros(count, np.int8),
            explores=np.arange(count) == count - 1,
            records=self.learner is not None,
        )

    def observe(self, episodes: Sequence[Transitions]) -> None:
        """Take the transitions that the learner learns from in the next ``tell``."""
        self._episodes = episodes

    def learn(
        self, population: Population, fitness: NDArray[np.float64], valid: NDArray[np.bool_]
    ) -> Diagnostics | None:
        """Algorithm 1: rank and evolve the actors, train the learner, and inject its actor."""
        super().learn(population, fitness, valid & (np.arange(len(valid)) < len(self.survivors)))
        self._evolve()
        if self.learner is not None:
            self._train(self.learner)
            if (self.generation + 1) % self.inject_every == 0:
                self.survivors[-1] = self.lent
        return None

    def _train(self, learner: OffPolicyLearner) -> None:
        if self._episodes is None:
            raise ValueError("the learner has no transitions of this generation: call observe() before tell()")
        episodes, self._episodes = self._episodes, None
        learner.add(episodes)
        if len(learner) >= self.learning_starts:
            steps = round(self.gradient_steps * sum(map(len, episodes)))
            learner.learn(steps, seeding.derive(self.seed, seeding.Purpose.LEARNING, self.generation))
            self.lent = learner.actor

    def _evolve(self) -> None:
        """Let children of an elite and a winner replace who wins no tournament, and mutate all but the elites."""
        ranked, chance = self.survivors.copy(), self._chance()
        winners = chance.integers(len(ranked), size=(len(ranked) - self.elites, _TOURNAMENT)).min(1)
        lost = np.setdiff1d(np.arange(self.elites, len(ranked)), winners)
        for pair in np.split(lost, np.arange(2, len(lost), 2)) if lost.size else ():
            elite, winner = chance.integers(self.elites), chance.choice(winners)
            self.survivors[pair] = self._crossed(ranked[elite], ranked[winner], chance)[: len(pair)]
        for index in range(self.elites, len(ranked)):
            if chance.random() < self.mutation:
                self.survivors[index] = self._mutant(self.survivors[index], chance)

    def _crossed(
        self, one: NDArray[np.float32], other: NDArray[np.float32], chance: np.random.Generator
    ) -> list[NDArray[np.float32]]:
        """Crossover: copies in which one takes rows (a unit's weights and bias) of the other, or the reverse."""
        pair = [one.copy(), other.copy()]
        for first, second in zip(*(self._matrices(each) for each in pair), strict=True):
            for row in chance.integers(len(first), size=chance.integers(2 * len(first))):
                if chance.random() < 0.5:
                    first[row] = second[row]
                else:
                    second[row] = first[row]
        return pair

    def _mutant(self, actor: NDArray[np.float32], chance: np.random.Generator) -> NDArray[np.float32]:
        """Algorithm 3: change a few weights of some matrices, no biases."""
        mutant = actor.copy()
        for matrix in self._matrices(mutant):
            weights = matrix if self._layers is None else matrix[:, :-1]
            if chance.random() >= 2 * chance.random():
                continue
            number = chance.integers(math.ceil(_MUTATED * weights.size) + 1)
            row, column = (chance.integers(side, size=number) for side in weights.shape)
            kind, noise = chance.random(number), chance.standard_normal(number)
            strength = np.where(kind < _SUPER, 100 * self.sigma, self.sigma)
            old = weights[row, column].astype(float)
            new = np.where((kind >= _SUPER) & (kind < _SUPER + _RESET), noise, old + strength * old * noise)
            weights[row, column] = np.clip(new, -_LIMIT, _LIMIT)
        return mutant

    def _matrices(self, vector: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        """Views of each layer's matrix; all in one column without a policy."""
        if self._layers is None:
            return [vector.reshape(-1, 1)]
        return [matrix for (matrix,) in matrices(vector, self._layers)]

    def _chance(self) -> np.random.Generator:
        return seeding.generator(seeding.derive(self.seed, seeding.Purpose.PARENT, self.generation))

    def state_dict(self) -> dict[str, Any]:
        """See ``Strategy``; what the learner needs to go on is among the entries."""
        learnt = {} if self.learner is None else self.learner.state_dict()
        return {**super().state_dict(), **{f"learner/{name}": value for name, value in learnt.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``; for errors see ``Strategy``."""
        super().load_state_dict(state)
        self._episodes = None
        if self.learner is not None:
            prefix = "learner/"
            learnt = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
            self.learner.load_state_dict(learnt)
