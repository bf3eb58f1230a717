"""The training state, which a run carries from generation to generation, and how it begins or is resumed."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from es_core.config.budgets import bound_reached, largest_population, step_limit
from es_core.config.checks import whole
from es_core.config.plan import Plan
from es_core.config.train_config import TrainConfig, require_bits
from es_core.files import CheckpointError
from es_core.formatting import shown
from es_core.policies.by_name import make_policy
from es_core.policies.network import Policy
from es_core.policies.normalization import ObservationStatistics, Statistics
from es_core.pools.pool import Results, RolloutPool
from es_core.runs.checkpoint import Checkpoint
from es_core.runs.generation_log import GenerationLog
from es_core.runs.metrics import GenerationStats
from es_core.runs.run_folder import RunFolder
from es_core.runs.scores import Standing
from es_core.seeding import Purpose, derive
from es_core.strategies.population import Population
from es_core.strategies.transitions import Transitions
from es_core.training.by_name import find_trainer
from es_core.training.evolution import Evolution
from es_core.training.race import Race, quality
from es_core.training.rules.rule import SearchHistory, recent_generations
from es_core.training.rules.rules import Changes, Rules
from es_core.training.rules.sigma_shrinking import FAILING_EARLY, NOT_SHRUNK, OUT_OF_REACH
from es_core.training.trainer import Trainer
from es_envs.spaces import input_size, is_same_space

# Of a checkpoint's progress.
_COUNTS = (
    "search", "searches", "contender", "total_steps", "evaluation_steps", "budgeted_steps", "total_episodes",
)  # fmt: skip


@dataclass
class TrainingState:
    """The state of a run between two generations.

    Attributes:
        trainer: the trainer, with the mean and the number of the generation.
        policy: what its parameters mean.
        statistics: statistics that normalise the next generation's observations or hidden layers, or None.
        rules: the rules that change the search between generations, with their states.
        search: number of the current search, from 0, in the order in which they began.
        searches: how many have begun.
        contender: number of the contender whose search it is.
        leader: the leader of the race as it was after its last turn, while another contender plays.
        race: says whose turn it is.
        total_steps: environment steps of all episodes so far.
        evaluation_steps: those of all but candidates' episodes.
        budgeted_steps: those of them that ``eval_budget`` counts.
        total_episodes: candidates' episodes so far.
        best: standing of the best centre so far; None if none was confirmed.
    """

    trainer: Trainer
    policy: Policy
    statistics: Statistics | None
    rules: Rules
    search: int = 0
    searches: int = 1
    contender: int = 0
    leader: Checkpoint | None = None
    race: Race = field(default_factory=Race)
    total_steps: int = 0
    evaluation_steps: int = 0
    budgeted_steps: int = 0
    total_episodes: int = 0
    best: Standing | None = None

    @classmethod
    def begin(cls, run: RunFolder, pool: RolloutPool) -> Self:
        """Return the state before generation 0, and write that checkpoint; for errors see ``first``."""
        state = cls.first(run, pool)
        run.save_checkpoint(state.checkpoint(run, pool))
        return state

    @classmethod
    def first(cls, run: RunFolder, pool: RolloutPool) -> Self:
        """Return the state before generation 0.

        Raises:
            ValueError: the run's initial checkpoint has another policy, or the strategy refuses a setting.
            CheckpointError: that checkpoint is damaged.
        """
        config = run.plan
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
        trainer = find_trainer(config.strategy)(config, policy, given)
        trainer.require_pool(pool)
        rules = Rules.begin(config, step_limit(pool.definition, config))
        return cls(trainer, policy, statistics, rules, race=Race.of(config))

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
            run.truncate_history(0)
            return cls.begin(run, pool)
        checkpoint = _latest(run, generation)
        if not (is_same_space(checkpoint.observation_space, pool.observation_space)
                and is_same_space(checkpoint.action_space, pool.action_space)):  # fmt: skip
            raise ValueError(f"{run.config.env_id} has other spaces now than when the run in {run.directory} was made")
        checkpoint.policy()  # raises if a user's module has changed
        state = cls.at(checkpoint, run.checkpoint_path(generation))
        state.race = Race.of(run.plan, run.history[:generation], contender=state.contender, search=state.search)
        state.trainer.require_pool(pool)
        run.truncate_history(generation)
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
            config = progress["rules"].search_config
            trainer = find_trainer(config.strategy)(config, policy, checkpoint.mean)
            trainer.load_state_dict(checkpoint.strategy)
            _require_consistent(trainer, checkpoint)
        except (LookupError, ValueError, TypeError, ArithmeticError) as error:
            raise CheckpointError(f"{where}: its state does not fit: {type(error).__name__}: {error}") from error
        return cls(trainer, policy, checkpoint.statistics, leader=checkpoint.leader, **progress)

    def take_turn(self, run: RunFolder) -> None:
        """Let the contender whose turn it is play the next generation."""
        if self.contender == self.race.contender:
            if self.contender == self.race.leader:  # one that was overtaken does not go on
                self.leader = None
            return
        generation = self.trainer.generation
        if self.contender == self.race.leader:
            self.leader = replace(self.checkpoint(run, self.policy), leader=None)
        self.contender = self.race.contender
        if self.contender == self.race.leader and self.leader is not None:
            own, self.leader = self.at(self.leader, run.directory), None
            self.trainer, self.policy, self.statistics, self.rules = own.trainer, own.policy, own.statistics, own.rules
            self.search = own.search
        else:
            self._begin_contender(run)
        self.trainer.take_turn(generation)

    def _begin_contender(self, run: RunFolder) -> None:
        """Begin a challenger's search, from other parameters than any before it."""
        config = run.plan.of_contender(self.contender)
        self.policy = make_policy(config, self.policy.observation_space, self.policy.action_space)
        mean = self.policy.initial(derive(config.seed, Purpose.RESTART, self.contender))
        self.trainer = find_trainer(config.strategy)(config, self.policy, mean)
        normalizes = config.observation_normalization
        self.statistics = ObservationStatistics.empty(self.policy.inputs) if normalizes else None
        self.rules = Rules.begin(config, step_limit(run.definition, config))
        self.search, self.searches = self.searches, self.searches + 1

    def population(self) -> Population:
        """Population of the next generation, with its statistics and limits.

        Raises:
            ValueError: the run's trainer has none.
        """
        if not isinstance(self.trainer, Evolution):
            raise ValueError(f"strategy {self.policy.config.strategy!r} has no population")
        return self.trainer.population(self.rules, self.statistics)

    def checkpoint(self, run: RunFolder, spaces: RolloutPool | Checkpoint | Policy) -> Checkpoint:
        """Checkpoint before the next generation; ``spaces`` has the environment's spaces."""
        state = self.trainer.state_dict()
        return Checkpoint(
            config=run.plan.of_contender(self.contender),
            generation=self.trainer.generation,
            mean=state["mean"],
            strategy=state,
            statistics=self.statistics,
            observation_space=spaces.observation_space,
            action_space=spaces.action_space,
            progress={
                **{name: getattr(self, name) for name in _COUNTS},
                "rules": dict(self.rules.states),
                "best": None if self.best is None else list(astuple(self.best)),
            },
            leader=self.leader,
        )

    def ending(self, run: RunFolder) -> str | None:
        """The bound, or the rule, that ends the run here: there is no further generation; None if it continues."""
        done = self.trainer.generation
        bound = bound_reached(run.config, generations=done, steps=self.total_steps, episodes=self.total_episodes)
        return bound or self.rules.ending(self.search_history(run))

    def search_history(self, run: RunFolder) -> SearchHistory:
        """The latest generations of the current search."""
        return SearchHistory.of(recent_generations(run.history, self.search))

    def log(self, fitness: NDArray[np.float64], results: Results, changes: Changes) -> GenerationLog:
        """Log of this generation, which determines the next one.

        Args:
            fitness: ``(N,)``, from which the strategy learns; NaN for a candidate that is dropped.
            results: this generation's results.
            changes: what the rules change.
        """
        statistics = self.statistics if isinstance(self.statistics, ObservationStatistics) else None
        return GenerationLog(
            fitness=fitness,
            rules=changes.rules,
            population_size=changes.population_size,
            search_from=changes.search_from,
            statistics=statistics and statistics.after(results.statistics or []),
            behaviours=results.behaviours,
        )

    @property
    def training_steps(self) -> int:
        """Environment steps of the candidates' episodes so far."""
        return self.total_steps - self.evaluation_steps

    def count(self, stats: GenerationStats) -> str:
        """Count a generation's environment steps and candidates' episodes, and tell the race: see ``Race.add``."""
        self.total_steps, self.total_episodes = stats.total_steps, stats.total_episodes
        self.evaluation_steps += stats.evaluation_steps
        self.budgeted_steps += stats.budgeted_steps(self.policy.config.solved_at)
        return self.race.add(quality(stats), stats.steps, restarts=self.search != stats.search)

    def learn(self, log: GenerationLog, transitions: Sequence[Transitions] = ()) -> None:
        """Go on to the next generation; ``transitions``: those of its episodes, if its population records them.

        Raises:
            ValueError: the log does not fit the run.
        """
        self.rules = self.rules.with_states(log.rules)
        self.trainer.learn(log, self.rules, transitions)
        self.statistics = log.statistics or self.statistics
        if log.search_from == "initial":
            self.search, self.searches = self.searches, self.searches + 1


def _latest(run: RunFolder, generation: int) -> Checkpoint:
    """The run's latest checkpoint; if it is damaged, the error says how to continue from the one before it."""
    try:
        return run.checkpoint_at(generation)
    except CheckpointError as error:
        earlier = max((g for g in run.checkpoint_generations() if g < generation), default=None)
        if earlier is not None:
            with suppress(CheckpointError, OSError):  # the first error is the one to tell
                run.checkpoint_at(earlier)
                damaged = run.checkpoint_path(generation)
                error.add_note(
                    f"Generation {earlier} has an intact one: delete {damaged} and resume, to continue from it."
                )
        raise


def first_statistics(config: TrainConfig, policy: Policy, pool: RolloutPool) -> Statistics | None:
    """Statistics that normalise observations or hidden layers in generation 0."""
    if config.observation_normalization:
        return ObservationStatistics.empty(policy.inputs)
    return pool.reference_batch() if config.virtual_batch_normalization else None


def _require_consistent(trainer: Trainer, checkpoint: Checkpoint) -> None:
    if trainer.generation != checkpoint.generation:
        raise ValueError(f"the strategy is in generation {trainer.generation}, the file in {checkpoint.generation}")
    if not np.array_equal(trainer.mean, checkpoint.mean):
        raise ValueError("the strategy's mean is not the file's")
    config, size = Plan.of(checkpoint.config), trainer.population_size
    most = largest_population(config)
    least = config.population_size if config.steps_per_generation is None else 2
    if not least <= size <= most:
        raise ValueError(f"the strategy has {size} candidates, its config allows {least} to {most}")


def _progress(checkpoint: Checkpoint) -> dict[str, Any]:
    """The contents of a checkpoint other than the strategy, as arguments of ``TrainingState``."""
    values = dict(checkpoint.progress)
    if "rules" not in values:
        values = _progress_from_older(values)
    values = {"searches": values["search"] + 1, "contender": 0, **values}
    totals, best = {name: values[name] for name in _COUNTS}, values["best"]
    if any(whole(0)(total) for total in totals.values()) or not isinstance(values["rules"], dict):
        raise ValueError(f"its progress cannot be {shown(checkpoint.progress)}")
    rules = Rules.load(Plan.of(checkpoint.config), values["rules"])
    if best is not None:
        solved, fitness, std, episodes = best if len(best) == 4 else (*best, 0.0, checkpoint.config.confirm_episodes)
        if whole(1)(episodes):
            raise ValueError(f"its progress cannot be {shown(checkpoint.progress)}")
        best = Standing(bool(solved), float(fitness), float(std), episodes)
    return {"rules": rules, "best": best, **totals}


def _progress_from_older(progress: Mapping[str, Any]) -> dict[str, Any]:
    """Return the progress of a checkpoint of an earlier version, in which each rule had entries of its own."""
    spent = progress.get("evaluation_steps", 0)  # the oldest have no budget
    older = {"evaluation_steps": 0, "budgeted_steps": spent, "range_share": 1.0, "doublings": 0, "restarts": 0}
    values = {**older, "narrowed": False, "failed_early": False, **progress}
    shrunk = FAILING_EARLY if values["failed_early"] else OUT_OF_REACH if values["narrowed"] else NOT_SHRUNK
    values["search"] = 2 * values["restarts"] + values["failed_early"]
    values["rules"] = {
        "plateau": values["restarts"],
        "sigma_shrinking": shrunk,
        "generation_steps": values["doublings"],
        "episode_cap": values["episode_cap"],
        "curriculum": values["range_share"],
    }
    return values
