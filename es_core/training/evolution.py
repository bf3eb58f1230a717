"""Evolution: the trainer that plays a strategy's populations, and gives it their fitness."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from es_core.config.plan import Plan
from es_core.config.train_config import TrainConfig
from es_core.policies.network import Policy
from es_core.policies.normalization import Statistics
from es_core.pools.pool import Results, RolloutPool
from es_core.runs.generation_log import GenerationLog
from es_core.seeding import Purpose, derive
from es_core.strategies.by_name import make_strategy, require_strategy
from es_core.strategies.population import Population
from es_core.strategies.strategy import Strategy
from es_core.strategies.transitions import Transitions
from es_core.training.rules.rules import Rules
from es_core.training.selection import choose_elite, training_seeds
from es_core.training.trainer import Trainer
from es_envs import Episode


class Evolution(Trainer):
    """Evolves a policy by the strategy that the config names; see ``Trainer``.

    Attributes:
        strategy: the strategy, with the mean and the number of the generation.
    """

    defaults: ClassVar[Mapping[str, Any]] = {}  # each strategy has its own
    unused = frozenset()

    def __init__(self, config: Plan, policy: Policy, mean: NDArray[np.float32] | None) -> None:
        self._config, self._policy = config, policy
        self._use(make_strategy(config, policy.initial(config.seed) if mean is None else mean, policy))

    def _use(self, strategy: Strategy) -> None:
        self.strategy, self.rebuildable, self._is_asked = strategy, strategy.rebuildable, False
        self.generation, self.mean = strategy.generation, strategy.mean
        self.population_size, self.diagnostics = strategy.population_size, strategy.diagnostics

    @classmethod
    def require_fit(cls, config: TrainConfig, *, from_policy: bool) -> None:  # noqa: ARG003
        """Refuse settings that are wrong for every policy; see ``make_strategy``."""
        require_strategy(config)

    def require_pool(self, pool: RolloutPool) -> None:
        """Refuse a pool without the transitions that the strategy learns from, or an environment without behaviour."""
        population = self.strategy.ask()
        if population.describes:
            pool.definition.load_behaviour()  # an error before the first generation
        if population.records and not pool.can_record:
            raise ValueError(
                f"strategy {pool.config.strategy!r} learns from every step of its episodes, and this pool returns "
                "none: use pool='local' (on the command line: --pool local)"
            )

    def population(self, rules: Rules, statistics: Statistics | None) -> Population:
        """Population of the next generation, with its statistics and limits."""
        self._is_asked = True
        return replace(rules.limit_population(self.strategy.ask()), statistics=statistics)

    def play(
        self, pool: RolloutPool, rules: Rules, statistics: Statistics | None, centre_seeds: Sequence[int]
    ) -> Results:
        """Play the population's episodes."""
        population = self.population(rules, statistics)
        seeds = training_seeds(self._config, len(population), self.generation)
        return pool.evaluate(population, seeds, centre_seeds=centre_seeds)

    def choose_elite(self, population: Population, fitness: NDArray[np.float64], pool: RolloutPool) -> list[Episode]:
        """See ``selection.choose_elite``."""
        return choose_elite(self._config, self.strategy, pool, population, fitness)

    def learn(self, log: GenerationLog, rules: Rules, transitions: Sequence[Transitions] = ()) -> None:
        """Tell the strategy its population's fitness, and change what the rules change."""
        strategy = self.strategy
        if not self._is_asked:  # a generation is rebuilt from its log
            strategy.ask()
        strategy.observe(transitions)
        if log.behaviours is not None:
            strategy.observe_behaviours(log.behaviours)
        centre = strategy.mean
        strategy.tell(log.fitness, log.valid)
        diagnostics = strategy.diagnostics  # of this step, though another strategy may follow
        if log.search_from is not None:
            mean = centre if log.search_from == "centre" else self._first_mean(rules)
            generation, strategy = strategy.generation, make_strategy(rules.search_config, mean, self._policy)
            strategy.generation = generation
        elif log.population_size is not None:
            strategy.population_size = log.population_size
        self._use(strategy)
        self.diagnostics = diagnostics

    def _first_mean(self, rules: Rules) -> NDArray[np.float32]:
        """The mean at which this search begins, unless a policy from a file was given."""
        seed, restarts = self._config.seed, rules.states.get("plateau") or 0
        return self._policy.initial(derive(seed, Purpose.RESTART, int(restarts)) if restarts else seed)

    def take_turn(self, generation: int) -> None:
        """Let the next generation have this number: others have played since the last one."""
        self.strategy.generation = self.generation = generation

    def state_dict(self) -> dict[str, Any]:
        """The strategy's."""
        return self.strategy.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the strategy continue from ``state_dict``."""
        self.strategy.load_state_dict(state)
        self._use(self.strategy)
