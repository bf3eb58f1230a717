"""A rollout: one environment and one policy, which play episodes together."""

import json
from collections.abc import Callable, Mapping, MutableSequence, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_core.config.budgets import step_limit
from es_core.config.train_config import TrainConfig
from es_core.policies.actor import Actor
from es_core.policies.by_name import make_policy
from es_core.policies.engines import make_actor, require_engine
from es_core.policies.network import Policy
from es_core.policies.normalization import Statistics
from es_core.policies.scripted import ScriptedActor, ScriptedPolicy
from es_core.rollout.environment import make_env, prepare_env
from es_core.rollout.errors import SpaceError
from es_core.rollout.fitness import fresh_fitnesses, load_fitnesses, observers_of, so_far, with_fitness
from es_core.rollout.ranges import scaled_ranges
from es_core.seeding import Purpose, derive
from es_envs import EnvDefinition, Episode
from es_envs.behaviour import BehaviourDescriber
from es_envs.closing import close_env
from es_envs.episode import NamedStop, Observer, Steps, play
from es_envs.scripts import RandomActions


class Rollout:
    """One environment and one policy for life, which play episodes together.

    Args:
        definition: the environment's definition.
        config: the run's config, resolved.
        progress: array for the number of each step, for a watchdog, and for the request to stop: see ``play``.
        **kwargs: keyword arguments of the environment that override the config's; ``render_mode`` too.

    Attributes:
        env: the bare environment, within the wrappers of the config's ``preprocessing``; another one after ``close``.
        policy: the policy.
        engine: the engine that computes it.
        actor: the policy's actor.

    Raises:
        PluginError: the environment cannot be made.
        SpaceError: a space is not supported, or the config's engine cannot compute the policy.
    """

    def __init__(
        self,
        definition: EnvDefinition,
        config: TrainConfig,
        *,
        progress: MutableSequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        self.definition = definition
        self._progress: MutableSequence[int] = [0, 0] if progress is None else progress
        self._step_limit = step_limit(definition, config)
        self._ranges = config.randomize
        self._fitnesses = load_fitnesses(definition, config)
        self._behaviours = BehaviourDescriber(definition)
        self.env, config = prepare_env(definition, config, **kwargs)
        self._make_env = partial(make_env, definition, config, **kwargs)
        self._is_open, self._config = True, config
        self._players: dict[str, tuple[Policy, str, Actor]] = {}
        try:
            self.adopt({})
            if isinstance(self.policy, ScriptedPolicy):
                self._script = definition.script(self.policy.name)
        except ValueError as error:
            self.close()
            raise SpaceError(f"{definition.label}: {error}") from error

    def close(self) -> None:
        """Close the environment; the next episode gets a fresh one. May be called twice."""
        if self._is_open:
            self._is_open = False
            close_env(self.env, self.definition.label)

    def reopen(self) -> None:
        """Make a fresh environment if there is none; the next episode would do so, too."""
        if not self._is_open:
            self.env, self._is_open = self._make_env(), True

    def adopt(self, settings: Mapping[str, Any]) -> None:
        """Play with the policy of a contender from now on, whose ``settings`` differ from the config's."""
        key = json.dumps(settings, sort_keys=True)
        if key not in self._players:
            config = replace(self._config, **settings)
            policy = make_policy(config, self.env.observation_space, self.env.action_space)
            engine = require_engine(config.engine, policy)
            self._players[key] = policy, engine, make_actor(policy, engine=engine)
        self.policy, self.engine, self.actor = self._players[key]

    def use(self, parameters: NDArray[np.float32], statistics: Statistics | None) -> None:
        """Let these parameters ``(d,)`` act from now on, with this normalisation."""
        self.actor.load(parameters, statistics)

    def episode(
        self,
        seed: int,
        *,
        observers: Sequence[Observer] = (),
        noise_seed: int | None = None,
        max_steps: int | None = None,
        range_share: float = 1.0,
        describes: bool = False,
    ) -> Episode:
        """Play one episode of the policy in use.

        Args:
            seed: seed of ``env.reset``.
            observers: called after every step with observation, action, reward and info.
            noise_seed: see ``Actor.reset``.
            max_steps: a step limit below that of the definition and the config, or None.
            range_share: share of the ranges of ``randomize``.
            describes: give the episode its behaviour.

        Raises:
            ValueError: an observation, the fitness, the behaviour or the sum of rewards is not finite, a reward is not
                a number, or ``reset`` or ``step`` returns something else than it must.
            Exception: the environment raises it.
        """
        self.actor.reset(noise_seed=noise_seed)
        episode = self._whole(self._play(seed, self.actor, observers, max_steps, range_share, pauses=False))
        return self._behaviours.with_behaviour(episode) if describes else episode

    @staticmethod
    def _whole(played: Steps) -> Episode:
        try:
            next(played)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        raise RuntimeError("an episode that does not pause paused")

    def random_episode(self, seed: int) -> Episode:
        """Play one episode of actions drawn from the action space; for errors see ``episode``."""
        actions = RandomActions(self.env, derive(seed, Purpose.BASELINE), masked=self.policy.config.action_masks)
        return self._whole(self._play(seed, actions, (), None, pauses=False))

    def steps(self, seed: int, act: Callable[[Any], Any] | None = None) -> Steps:
        """Play one episode step by step; what this yields after each returns the episode so far.

        Several of these may take turns, each in its own ``Rollout``.

        Args:
            seed: seed of ``env.reset``.
            act: chooses an action for each observation; None: the policy in use.
        """
        if act is None:
            act = self.actor
            self.actor.reset()
        return self._play(seed, act, (), None, pauses=True)

    def fitness_so_far(self, episode: Episode) -> float | None:
        """Fitness of an episode that continues, after a step of ``steps``; None if it is known only at the end."""
        return so_far(episode, self._fitnesses)

    def _play(
        self,
        seed: int,
        act: Callable[[Any], Any],
        observers: Sequence[Observer],
        max_steps: int | None,
        range_share: float = 1.0,
        *,
        pauses: bool,
    ) -> Steps:
        """Play an episode, and compute its fitness; a generator that yields after each step if asked to."""
        with NamedStop():
            self.reopen()
            if isinstance(act, ScriptedActor):
                act.begin(self._script(self.env.unwrapped, derive(seed, Purpose.BASELINE)))
            measured = fresh_fitnesses(self._fitnesses)
        limit = self._step_limit if max_steps is None else min(max_steps, self._step_limit)
        observers = [*observers, *observers_of(measured)]
        options = None
        if range_share < 1:
            options = {"randomize": scaled_ranges(self._ranges, range_share, self.env)}
        episode = yield from play(
            self.env, act, seed, limit, observers, options=options, progress=self._progress, pauses=pauses
        )
        with NamedStop():
            return with_fitness(episode, measured)
