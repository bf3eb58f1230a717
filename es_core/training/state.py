"""The training state, which a run carries from generation to generation, and how it begins or is resumed."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from es_core.config.budgets import (
    begun_again,
    first_cap,
    first_range_share,
    largest_population,
    may_double,
    next_cap,
    next_population_size,
    next_range_share,
    reached,
    step_limit,
)
from es_core.config.checks import maybe, number, whole
from es_core.config.choices import LEARNER
from es_core.config.train_config import TrainConfig, require_bits
from es_core.files import CheckpointError
from es_core.formatting import shown
from es_core.learners.learner import Learner
from es_core.learners.off_policy import OffPolicyLearner
from es_core.policies.by_name import make_policy
from es_core.policies.network import Policy
from es_core.policies.normalization import ObservationStatistics, Statistics
from es_core.pools.pool import Results, RolloutPool
from es_core.runs.checkpoint import Checkpoint
from es_core.runs.generation_log import GenerationLog
from es_core.runs.metrics import NARROWER, GenerationStats, fails_early, is_plateau, is_stalled, since_restart
from es_core.runs.run_folder import RunFolder
from es_core.runs.scores import Standing
from es_core.seeding import Purpose, derive
from es_core.strategies.by_name import make_strategy
from es_core.strategies.erl import ERL
from es_core.strategies.population import Population
from es_core.strategies.strategy import Strategy
from es_core.strategies.transitions import Transitions
from es_envs.spaces import input_size, is_same_space

# Of a checkpoint's progress.
_COUNTS = ("doublings", "restarts", "total_steps", "evaluation_steps", "budgeted_steps", "total_episodes")
_FLAGS = ("narrowed", "failed_early")


@dataclass
class TrainingState:
    """The state of a run between two generations.

    Attributes:
        strategy: the strategy, with the mean and the number of the generation.
        policy: what its parameters mean.
        statistics: statistics that normalise the next generation's observations or hidden layers, or None.
        episode_cap: step limit of the next population's episodes, or None.
        range_share: share of the ranges of ``randomize`` in which the next population plays.
        doublings: how often the steps of this search's generations have doubled.
        restarts: how often the search has begun again.
        narrowed: True if this search has begun again with a smaller sigma.
        failed_early: True if it has because it failed early.
        total_steps: environment steps of all episodes so far.
        evaluation_steps: those of all but candidates' episodes.
        budgeted_steps: those of them that ``eval_budget`` counts.
        total_episodes: candidates' episodes so far.
        best: standing of the best centre so far; None if none was confirmed.
    """

    strategy: Strategy
    policy: Policy
    statistics: Statistics | None
    episode_cap: int | None
    range_share: float
    doublings: int = 0
    restarts: int = 0
    narrowed: bool = False
    failed_early: bool = False
    total_steps: int = 0
    evaluation_steps: int = 0
    budgeted_steps: int = 0
    total_episodes: int = 0
    best: Standing | None = None

    @classmethod
    def begin(cls, run: RunFolder, pool: RolloutPool) -> Self:
        """Return the state before generation 0, and write that checkpoint; for errors see ``first``."""
        state = cls.first(run, pool)
        run.keep(state.checkpoint(run, pool))
        return state

    @classmethod
    def first(cls, run: RunFolder, pool: RolloutPool) -> Self:
        """Return the state before generation 0.

        Raises:
            ValueError: the run's initial checkpoint has another policy, or the strategy refuses a setting.
            CheckpointError: that checkpoint is damaged.
        """
        config = run.config
        policy = make_policy(config, pool.observation_space, pool.action_space)
        statistics = first_statistics(config, policy, pool)
        given: NDArray[np.float32] | None = None
        if run.initial_path.exists():
            source = Checkpoint.load(run.initial_path)
            inputs = input_size(source.observation_space)
            other_meaning = source.config.action_bins != config.action_bins
            if other_meaning or (source.mean.size, inputs) != (policy.size, policy.inputs):
                raise ValueError(
                    f"initial has {source.mean.size} parameters for the {inputs} numbers of an observation of "
                    f"{source.config.env_id}, the policy {policy.size} for the {policy.inputs} of {config.env_id}: "
                    "policy, hidden_sizes, action_bins, sample_actions or spaces differ"
                )
            given = source.mean
            if statistics is not None and type(source.statistics) is type(statistics):
                statistics = source.statistics
        cap = first_cap(config, step_limit(pool.definition, config))
        strategy = _strategy(config, policy, given)
        _require_observable(strategy, pool)
        return cls(strategy, policy, statistics, cap, first_range_share(config))

    @classmethod
    def resume(cls, run: RunFolder, pool: RolloutPool) -> Self:
        """Return the state of the latest checkpoint that has all lines before it; later lines are cut off.

        Raises:
            ValueError: the environment's spaces have changed.
            CheckpointError: the checkpoint is damaged, or its policy has changed.
        """
        run.clear_partial()
        run.write_config(run.config)  # its bounds may have grown
        generation = run.next_generation
        if generation is None:  # killed before the first
            run.cut_history(0)
            return cls.begin(run, pool)
        checkpoint = _latest(run, generation)
        if not (is_same_space(checkpoint.observation_space, pool.observation_space)
                and is_same_space(checkpoint.action_space, pool.action_space)):  # fmt: skip
            raise ValueError(f"{run.config.env_id} has other spaces now than when the run in {run.directory} was made")
        checkpoint.policy()  # raises if a user's module has changed
        state = cls.at(checkpoint, run.checkpoint_path(generation))
        _require_observable(state.strategy, pool)
        run.cut_history(generation)
        return state

    @classmethod
    def at(cls, checkpoint: Checkpoint, where: object) -> Self:
        """Return the state before the checkpoint's generation.

        Args:
            checkpoint: checkpoint with the strategy's state.
            where: its file, for the message.

        Raises:
            CheckpointError: the state does not fit the config, or another version computed it with other bits.
        """
        require_bits(checkpoint.config, where)
        try:
            policy, progress = checkpoint.policy(), _progress(checkpoint)
            searched = _searched(checkpoint.config, progress["restarts"], narrowed=progress["narrowed"])
            strategy = _strategy(searched, policy, checkpoint.mean)
            strategy.load_state_dict(checkpoint.strategy)
            _require_consistent(strategy, checkpoint)
        except (LookupError, ValueError, TypeError, ArithmeticError) as error:
            raise CheckpointError(f"{where}: its state does not fit: {type(error).__name__}: {error}") from error
        return cls(strategy, policy, checkpoint.statistics, **progress)

    def population(self) -> Population:
        """Population of the next generation, with its statistics and step limit."""
        return replace(
            self.strategy.ask(),
            statistics=self.statistics,
            max_episode_steps=self.episode_cap,
            range_share=self.range_share,
        )

    def checkpoint(self, run: RunFolder, spaces: RolloutPool | Checkpoint) -> Checkpoint:
        """Checkpoint before the next generation; ``spaces`` has the environment's spaces."""
        state = self.strategy.state_dict()
        return Checkpoint(
            config=run.config,
            generation=self.strategy.generation,
            mean=state["mean"],
            strategy=state,
            statistics=self.statistics,
            observation_space=spaces.observation_space,
            action_space=spaces.action_space,
            progress={
                **{name: getattr(self, name) for name in (*_COUNTS, *_FLAGS, "episode_cap", "range_share")},
                "best": None if self.best is None else list(astuple(self.best)),
            },
        )

    def limits(self, config: TrainConfig) -> dict[str, float | None]:
        """Limits of the next population's episodes, for the metrics; None: whole episodes, all ranges."""
        return {
            "episode_cap": self.episode_cap,
            "range_share": None if config.curriculum is None else self.range_share,
        }

    @property
    def search(self) -> tuple[int, bool]:
        """The search that goes on: see ``GenerationStats``."""
        return self.restarts, self.failed_early

    def at_end(self, run: RunFolder) -> bool:
        """Return True if a bound of the run, or a plateau that ends it, is reached: there is no further generation."""
        done = self.strategy.generation
        bound = reached(run.config, generations=done, steps=self.total_steps, episodes=self.total_episodes)
        return bound is not None or run.gives_up(self.search)

    def log(
        self,
        run: RunFolder,
        fitness: NDArray[np.float64],
        results: Results,
        step_limit: int,
        *,
        loses_centre: bool,
    ) -> GenerationLog:
        """Log of this generation, which determines the next one.

        Args:
            run: the run, with the history before this generation.
            fitness: ``(N,)``, from which the strategy learns; NaN for a candidate that is dropped.
            results: this generation's results.
            step_limit: step limit of whole episodes.
            loses_centre: True if the centre lasts to the limit, and no candidate came near what it does.
        """
        config, lengths = run.config, results.lengths[results.valid]
        searched = begun_again(config, self.restarts)
        recent = since_restart(run.history, self.search)
        doublings = self.doublings + (may_double(searched, self.doublings) and is_stalled(recent))
        statistics = self.statistics if isinstance(self.statistics, ObservationStatistics) else None
        # With a radius, pgpe's sigmas do not follow from sigma.
        narrows = self.strategy.adapts_sigma and "sigma" in config.decided and "radius" not in config.strategy_options
        is_new = not self.narrowed and not run.initial_path.exists()
        fails = narrows and is_new and bool(recent) and fails_early(recent, run.history[0], surely=True)
        restart = self.restarts < config.restarts and is_plateau(recent)
        if restart or fails:  # the next parameters have learnt nothing, so they begin as easily as the first ones
            cap, share = first_cap(config, step_limit), first_range_share(config)
        else:
            cap = next_cap(config, step_limit, self.episode_cap, lengths)
            share = next_range_share(config, self.range_share, results.fitness[results.valid])
        return GenerationLog(
            fitness=fitness,
            population_size=next_population_size(searched, doublings, lengths) if self.strategy.resizable else None,
            doublings=doublings,
            restart=restart,
            narrower=narrows and loses_centre and not (recent or self.narrowed),
            fails_early=fails,
            episode_cap=cap,
            range_share=share,
            statistics=statistics and statistics.after(results.statistics or []),
            behaviours=results.behaviours,
        )

    @property
    def training_steps(self) -> int:
        """Environment steps of the candidates' episodes so far."""
        return self.total_steps - self.evaluation_steps

    def count(self, stats: GenerationStats) -> None:
        """Count a generation's environment steps and candidates' episodes."""
        self.total_steps, self.total_episodes = stats.total_steps, stats.total_episodes
        self.evaluation_steps += stats.evaluation_steps
        self.budgeted_steps += stats.budgeted_steps(self.policy.config.solved_at)

    def move_on(self, log: GenerationLog, transitions: Sequence[Transitions] = ()) -> None:
        """Go on to the next generation; ``transitions``: those of its episodes, if its population records them."""
        self.strategy.observe(transitions)
        if log.behaviours is not None:
            self.strategy.observe_behaviours(log.behaviours)
        centre = self.strategy.mean
        self.strategy.tell(log.fitness, log.valid)
        self.episode_cap, self.range_share, self.doublings = log.episode_cap, log.range_share, log.doublings
        self.statistics = log.statistics or self.statistics
        if log.restart:
            self._begin_again()
        elif log.narrower:  # one that adapts sigma would need many generations to come so far down
            self.narrowed = True
            self._search_from(centre)
        elif log.fails_early:
            self.narrowed, self.failed_early, self.doublings = True, True, 0
            self._search_from(self._first_mean())
        elif log.population_size is not None:
            self.strategy.population_size = log.population_size

    def _begin_again(self) -> None:
        """Replace the strategy by one that knows nothing of what was learnt but the statistics of observations.

        It has twice the candidates (Auger and Hansen 2005, "A restart CMA evolution strategy with increasing population
        size"): more of them see further, and are misled less by noise.
        """
        self.restarts, self.narrowed, self.failed_early, self.doublings = self.restarts + 1, False, False, 0
        self._search_from(self._first_mean())

    def _first_mean(self) -> NDArray[np.float32]:
        """The mean at which this search has begun, unless a policy from a file was given."""
        seed = self.policy.config.seed
        return self.policy.initial(derive(seed, Purpose.RESTART, self.restarts) if self.restarts else seed)

    def _search_from(self, mean: NDArray[np.float32]) -> None:
        generation = self.strategy.generation
        self.strategy = _strategy(
            _searched(self.policy.config, self.restarts, narrowed=self.narrowed), self.policy, mean
        )
        self.strategy.generation = generation


def _searched(config: TrainConfig, restarts: int, *, narrowed: bool) -> TrainConfig:
    """The decided config of a search; some strategies' rates follow from its sigma."""
    return begun_again(replace(config, sigma=config.sigma / NARROWER) if narrowed else config, restarts)


def _latest(run: RunFolder, generation: int) -> Checkpoint:
    """The run's latest checkpoint; if it is damaged, the error says how to go on from the one before it."""
    try:
        return run.checkpoint_at(generation)
    except CheckpointError as error:
        earlier = max((g for g in run.checkpoint_generations() if g < generation), default=None)
        if earlier is not None:
            with suppress(CheckpointError, OSError):  # the first error is the one to tell
                run.checkpoint_at(earlier)
                damaged = run.checkpoint_path(generation)
                error.add_note(
                    f"Generation {earlier} has an intact one: delete {damaged} and resume, to go on from it."
                )
        raise


def _strategy(config: TrainConfig, policy: Policy, mean: NDArray[np.float32] | None) -> Strategy:
    """The strategy that a config names, starting at ``mean``, or where it or the policy starts by itself."""
    if config.strategy.startswith(LEARNER):
        return Learner(config, policy, mean)
    strategy = make_strategy(config, policy.initial(config.seed) if mean is None else mean, policy)
    if isinstance(strategy, ERL):
        learner = OffPolicyLearner(
            policy, strategy.mean, algorithm=strategy.algorithm, options=strategy.learner_options, seed=config.seed
        )
        if strategy.learning_starts > learner.capacity:
            raise ValueError(
                f"learning_starts={strategy.learning_starts}: the learner keeps its last {learner.capacity} steps, and "
                "would never start: raise buffer_size (in learner_options), or lower it"
            )
        strategy.learner = learner
    return strategy


def first_statistics(config: TrainConfig, policy: Policy, pool: RolloutPool) -> Statistics | None:
    """Statistics that normalise observations or hidden layers in generation 0."""
    if config.observation_normalization:
        return ObservationStatistics.empty(policy.inputs)
    return pool.reference_batch() if config.virtual_batch_normalization else None


def _require_observable(strategy: Strategy, pool: RolloutPool) -> None:
    population = strategy.ask()
    if population.describes:
        pool.definition.load_behaviour()  # an error before the first generation
    if population.records and not pool.can_record:
        raise ValueError(
            f"strategy {pool.config.strategy!r} learns from every step of its episodes, and this pool returns none: "
            "use pool='local' (on the command line: --pool local)"
        )


def _require_consistent(strategy: Strategy, checkpoint: Checkpoint) -> None:
    if strategy.generation != checkpoint.generation:
        raise ValueError(f"the strategy is in generation {strategy.generation}, the file in {checkpoint.generation}")
    if not np.array_equal(strategy.mean, checkpoint.mean):
        raise ValueError("the strategy's mean is not the file's")
    config, size, most = checkpoint.config, strategy.population_size, largest_population(checkpoint.config)
    least = config.population_size if config.steps_per_generation is None else 2
    if not least <= size <= most:
        raise ValueError(f"the strategy has {size} candidates, its config allows {least} to {most}")


def _progress(checkpoint: Checkpoint) -> dict[str, Any]:
    """Entries of a checkpoint beside the strategy, as arguments of ``TrainingState``."""
    # Older runs have no budget, curriculum, doublings, restarts and searches that begin again.
    spent = checkpoint.progress.get("evaluation_steps", 0)
    older = {"evaluation_steps": 0, "budgeted_steps": spent, "range_share": 1.0, "doublings": 0, "restarts": 0}
    values = {**older, **dict.fromkeys(_FLAGS, False), **checkpoint.progress}
    cap, best, totals = values["episode_cap"], values["best"], {name: values[name] for name in _COUNTS}
    ranges = values["range_share"]
    if any(whole(0)(total) for total in totals.values()) or maybe(whole(1))(cap) or number(0)(ranges) or ranges > 1:
        raise ValueError(f"its progress cannot be {shown(checkpoint.progress)}")
    if totals["doublings"] and not may_double(checkpoint.config, totals["doublings"] - 1):
        raise ValueError(f"its config does not allow {totals['doublings']} doublings of a generation's steps")
    if totals["restarts"] > checkpoint.config.restarts:
        raise ValueError(f"its config allows {checkpoint.config.restarts} restarts, it has {totals['restarts']}")
    if best is not None:
        solved, fitness, std, episodes = best if len(best) == 4 else (*best, 0.0, checkpoint.config.confirm_episodes)
        if whole(1)(episodes):
            raise ValueError(f"its progress cannot be {shown(checkpoint.progress)}")
        best = Standing(bool(solved), float(fitness), float(std), episodes)
    flags = {name: bool(values[name]) for name in _FLAGS}
    return {"episode_cap": cap, "range_share": ranges, **flags, "best": best, **totals}
