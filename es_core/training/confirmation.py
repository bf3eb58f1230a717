"""Scores of a centre: when it is evaluated, and its confirmation as the best, or as solved, beyond chance."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np

from es_core.config.budgets import FEWEST_EPISODES, affordable_episodes, evaluation_episodes, final_score_episodes
from es_core.config.train_config import TrainConfig
from es_core.files import CheckpointError
from es_core.pools.copies import EACH
from es_core.pools.pool import Results, RolloutPool
from es_core.rollout.errors import RolloutError
from es_core.runs.checkpoint import Checkpoint
from es_core.runs.run_folder import RunFolder
from es_core.runs.scores import Evaluation, Standing
from es_core.seeding import Purpose, episode_seeds
from es_core.statistics import lower_bound
from es_core.training.rebuilding import find_best
from es_core.training.state import TrainingState
from es_envs import Episode
from es_envs.registry import is_local

_ERROR = 0.05  # maximum probability of calling a run solved whose centre never reaches the goal, if scores are normal
_MOST_TESTS = 10
_FIRST_EPISODES = 10  # of a proof
_BASELINE_EPISODES = 5
NOTHING, _RANDOM = "doing nothing", "random actions"  # the baselines


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores of a generation's centre, as fields of ``GenerationStats``, which describes them."""

    evaluation: Evaluation | None
    confirmation: Evaluation | None
    solved: bool
    final: Evaluation | None
    final_fitness: list[float]
    baselines: dict[str, Evaluation]

    @property
    def steps(self) -> int:
        """Environment steps of all these episodes."""
        scores = (self.evaluation, self.confirmation, self.final, *self.baselines.values())
        return sum(score.steps for score in scores if score is not None)


def score_centre(
    run: RunFolder,
    state: TrainingState,
    before: Checkpoint,
    pool: RolloutPool,
    results: Results | None,
    evaluated: Sequence[Episode],
    first: Mapping[str, Sequence[Episode]] | None,
) -> Scores:
    """Score a centre: confirm what looks best or solved, and at a run's end score the best of all.

    Args:
        run: the run.
        state: its state before the generation.
        before: the centre's checkpoint.
        pool: where it is played.
        results: the generation's, None if it is the last one.
        evaluated: the centre's episodes in its evaluation; none if it was not evaluated.
        first: the baselines' first episodes, in the run's first generation.
    """
    without_learning = {} if first is None else score_baselines(run, state, pool, first)
    evaluation = _score(evaluated)
    confirmed, solved = confirm(run, state, before, pool, results, evaluation)
    finale = final_episodes(run, state, pool, evaluation) if results is None and not solved else []
    return Scores(
        evaluation=evaluation,
        confirmation=_score(confirmed),
        solved=solved,
        final=_score(finale),
        final_fitness=[episode.fitness for episode in (confirmed if solved else finale)],
        baselines=without_learning,
    )


def _score(episodes: Sequence[Episode]) -> Evaluation | None:
    return Evaluation.from_episodes(episodes) if episodes else None


def episodes_of_evaluation(run: RunFolder, state: TrainingState, *, last: bool) -> int:
    """Number of episodes in the evaluation of the next centre, 0 if it is not evaluated.

    An evaluation takes at most half of what is free in ``eval_budget``, and waits until the other half is enough for a
    confirmation. The first and the last centre are scored at any price, since either may be the best.
    """
    config, trainer = run.config, state.trainer
    if config.eval_every == 0 or not (last or trainer.generation % config.eval_every == 0):
        return 0
    wanted = evaluation_episodes(config, trainer.population_size)
    training, length = float(trainer.population_size * config.episodes_per_candidate), 1.0
    if run.history:  # else nothing is known of episodes' lengths yet: the centre's are as long as the candidates'
        # The first centre says little about later ones: it may fall at once.
        trained = (stats for stats in reversed(run.history) if stats.generation > 0)
        typical = run.history[-1].episode_length or 1.0
        training = state.training_steps + training * typical
        length = next((stats.evaluation.length for stats in trained if stats.evaluation is not None), typical)
    most, spent = 2 * max(wanted, config.confirm_episodes), state.budgeted_steps
    free = affordable_episodes(config, most, training_steps=training, evaluation_steps=spent, length=length)
    fewest = min(wanted, FEWEST_EPISODES)
    if run.history and not last and free < fewest + min(config.confirm_episodes, FEWEST_EPISODES):
        return 0
    return min(wanted, max(-(-free // 2), fewest))


def first_episodes(run: RunFolder, state: TrainingState, pool: RolloutPool) -> dict[str, list[Episode]]:
    """Play the first episode of each baseline before anything else, in two workers if there are as many.

    Whether it is the same after many others, ``score_baselines`` finds out. These steps are counted nowhere, so that no
    result depends on them.
    """
    played: dict[str, list[Episode]] = {}
    if run.config.eval_every and pool.config.vector_starts in {None, EACH}:
        seeds = episode_seeds(run.config.seed, Purpose.BASELINE, 1) * min(pool.workers, 2)
        with _ignoring_failed_episodes():
            played[NOTHING] = pool.rollouts(np.zeros_like(state.trainer.mean), state.statistics, seeds)
        with _ignoring_failed_episodes():
            played[_RANDOM] = pool.random_rollouts(seeds)
    return played


def score_baselines(
    run: RunFolder, state: TrainingState, pool: RolloutPool, first: Mapping[str, Sequence[Episode]]
) -> dict[str, Evaluation]:
    """Score what no learning gives: doing nothing, where all outputs of the policy are 0, and random actions.

    A baseline is left out if the environment does not bear it. A warning and the config say if an episode is not the
    same as it was when it was the ``first``.
    """
    played: dict[str, list[Episode]] = {}
    if run.config.eval_every:
        count = min(_BASELINE_EPISODES, run.config.eval_episodes)
        seeds = episode_seeds(run.config.seed, Purpose.BASELINE, count)
        with _ignoring_failed_episodes():
            played[NOTHING] = pool.rollouts(np.zeros_like(state.trainer.mean), state.statistics, seeds)
        with _ignoring_failed_episodes():
            played[_RANDOM] = pool.random_rollouts(seeds)
    scores = {name: Evaluation.from_episodes(episodes) for name, episodes in played.items()}
    _note_differences(run, first, played)
    starts = [episode.first_observation for each in played.values() for episode in each]
    _warn_if_outside_space(run, pool.observation_space, starts)
    return scores


@contextmanager
def _ignoring_failed_episodes() -> Iterator[None]:
    """Go on after an episode that failed, but not after a worker that cannot be replaced."""
    try:
        yield
    except RolloutError as error:
        if error.failure is None:
            raise


def _note_differences(
    run: RunFolder, first: Mapping[str, Sequence[Episode]], played: Mapping[str, Sequence[Episode]]
) -> None:
    """Warn, and note in the config, if episodes that should be alike are not.

    Args:
        run: the run.
        first: what ``first_episodes`` returned.
        played: episodes of each baseline, from the same seeds.
    """
    # Not needed by those who import this module for its other functions.
    from es_envs.testing.episodes import bits

    again = [[*first.get(name, ()), episodes[0]] for name, episodes in played.items()]
    # Copies of a vector environment may begin elsewhere than single environments.
    same_seed = [] if run.config.vector_starts else list(zip(*played.values(), strict=True))
    starts = [{bits(each.first_observation) for each in episodes} for episodes in (*again, *same_seed)]
    ends = [{(each.length, each.total_reward, bits(each.last_observation)) for each in episodes} for episodes in again]
    if any(len(different) > 1 for different in starts):
        how, so = "begin differently", "candidates do not meet the same starts"
    elif any(len(different) > 1 for different in ends):
        how, so = "begin alike and continue differently", "all numbers may depend on the workers that play"
    else:
        return
    advice = "draw every random number from self.np_random, and let reset set back all that step changes"
    if not is_local(run.config.env_id):
        advice = f"`es-envs check {run.config.env_id}` says what to change"
    warnings.warn(
        f"{run.definition.label}: two episodes with the same seed and actions {how}, so no score can be repeated, and "
        f"{so}: {advice}",
        RuntimeWarning,
        stacklevel=2,
    )
    run.write_config(replace(run.config, repeatable=False))


def _warn_if_outside_space(run: RunFolder, space: gymnasium.Space[Any], starts: Sequence[Any]) -> None:
    """Warn if an episode begins with an observation that is no member of its space."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gymnasium says of a list only that it casts it
        stranger = next((start for start in starts if not space.contains(start)), None)
    if stranger is None:
        return
    # Not needed where all is well.
    from es_envs.testing import ConformanceError
    from es_envs.testing.checks import require_member

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            require_member(space, stranger, "the first observation of an episode")
    except ConformanceError as error:
        warnings.warn(
            f"{run.definition.label}: {error!s:.300}. `es-envs check {run.config.env_id}` says what else to change",
            RuntimeWarning,
            stacklevel=2,
        )


def confirm(
    run: RunFolder,
    state: TrainingState,
    before: Checkpoint,
    pool: RolloutPool,
    results: Results | None,
    evaluation: Evaluation | None,
) -> tuple[list[Episode], bool]:
    """Score a centre that looks solved, or better than the best so far, on starts that nothing has seen.

    The first score selected it, so it is too good on average; the second is, too, as soon as it selects among several
    (see ``_test_number``, ``final_episodes``). The first centre, and the first one that looks better, are confirmed at
    any price: else a run that is stopped early would leave the untrained policy as its best.

    Args:
        run: the run.
        state: its state before the generation.
        before: the centre's checkpoint.
        pool: where it is played.
        results: the generation's, None if it is the last one.
        evaluation: the centre's score; None if it was not evaluated.

    Returns:
        The episodes, if there are any; and True if it is solved.
    """
    if evaluation is None:
        return [], False
    config, last = run.config, results is None
    steps = 0 if results is None else results.steps
    training_steps, all_steps = state.training_steps + steps, state.total_steps + steps + evaluation.steps
    number = _test_number(run, before.generation, last=last) if evaluation.reaches(config.solved_at) else None
    if number is not None and (last or _is_affordable(config, all_steps, evaluation)):
        played, solved = _prove(config, before, pool, number)
    elif count := _episodes_of_confirmation(run, state, evaluation, training_steps, last=last):
        seeds = episode_seeds(config.seed, Purpose.CONFIRMATION, count, before.generation)
        played, solved = pool.rollouts(before.mean, before.statistics, seeds), False
    else:
        return [], False
    standing = Standing.of(Evaluation.from_episodes(played), evaluation, solved=solved)
    if standing.beats(state.best):
        state.best = standing
        run.require_held()
        if not state.trainer.rebuildable:
            # Should the bounds grow, this line is lost, and the best centre is that one again.
            if last and run.best_path.exists():
                run.best_path.replace(run.backup_best_path)
            before = replace(before, strategy={})  # its state may be large, and nothing continues from here
        before.save(run.best_path)
    return played, solved


def _prove(config: TrainConfig, centre: Checkpoint, pool: RolloutPool, number: int) -> tuple[list[Episode], bool]:
    """Play ``confirm_episodes`` of a centre that looks solved, and tell whether it is, beyond chance.

    They are played in blocks, each as large as all before it. The proof ends with the first block after which it cannot
    succeed: an episode is no success, or the mean misses the goal.
    """
    episodes = list[Episode]()
    seeds = episode_seeds(config.seed, Purpose.CONFIRMATION, config.confirm_episodes, centre.generation)
    while len(episodes) < len(seeds):
        block = seeds[len(episodes) : max(_FIRST_EPISODES, 2 * len(episodes))]
        episodes += pool.rollouts(centre.mean, centre.statistics, block)
        if not Evaluation.from_episodes(episodes).reaches(config.solved_at):
            return episodes, False
    bound = lower_bound([episode.fitness for episode in episodes], _ERROR / (number * (number + 1)))
    return episodes, config.solved_at is not None and bound >= config.solved_at


def _episodes_of_confirmation(
    run: RunFolder, state: TrainingState, evaluation: Evaluation, training_steps: int, *, last: bool
) -> int:
    """Number of episodes that confirm a centre which may be the best; 0 if it does not look so, or if few would fit."""
    config, count = run.config, run.config.confirm_episodes
    # Without a budget it is known how many episodes follow, whose mean will count.
    promised = count if config.eval_budget is None else None
    if not Standing.of(evaluation, episodes=promised).beats(state.best):
        return 0
    fitting = affordable_episodes(
        config,
        count,
        training_steps=training_steps,
        evaluation_steps=state.budgeted_steps + evaluation.steps,
        length=evaluation.length,
    )
    confirmed = sum(stats.confirmation is not None for stats in run.history)
    return max(fitting, min(count, FEWEST_EPISODES)) if last or confirmed < 2 else fitting


def _is_affordable(config: TrainConfig, steps: int, evaluation: Evaluation) -> bool:
    """Return True if a proof fits into ``max_steps`` after so many steps; if not, it waits for the end of the run."""
    return config.max_steps is None or steps + config.confirm_episodes * evaluation.length <= config.max_steps


def _test_number(run: RunFolder, generation: int, *, last: bool) -> int | None:
    """Number of this test of a centre that seems to solve the task, from 1; None: the next test is not due yet.

    Tests are at least 1, 2, 4, 8, ... generations apart, ten at most, and one more at the last centre: with enough
    tests chance alone would succeed. So each test may err with a smaller probability, error / (k (k + 1)) at test k,
    which never sums to more than the error.
    """
    tests, due = 0, 0
    for stats in run.history:
        seemed_solved = stats.evaluation is not None and stats.evaluation.reaches(run.config.solved_at)
        if seemed_solved and stats.generation >= due:
            tests, due = tests + 1, stats.generation + 2**tests
    return tests + 1 if last or (generation >= due and tests < _MOST_TESTS) else None


def final_episodes(
    run: RunFolder, state: TrainingState, pool: RolloutPool, evaluation: Evaluation | None
) -> list[Episode]:
    """Play the best centre of an unsolved run from starts that no decision has seen.

    There are none if no centre was evaluated, or the best one is lost. The last one's ``evaluation`` tells how long
    they are.
    """
    try:
        best = find_best(run)
    except CheckpointError:  # which cannot be rebuilt here, on another kind of processor, say: resume has warned
        best = None
    if best is None or evaluation is None:
        return []
    count = final_score_episodes(run.config, steps=state.total_steps, length=evaluation.length)
    try:
        with pool.playing_as(best.progress.get("contender", 0)):
            return pool.rollouts(best.mean, best.statistics, run.final_seeds[:count])
    except RolloutError as error:
        if error.failure is not None:
            error.failure = replace(error.failure, generation=best.generation)
        raise
