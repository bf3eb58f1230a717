"""Scores of a centre: when it is evaluated, and its confirmation as the best, or as solved, beyond chance."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from es_core.config.budgets import (
    FEWEST_EPISODES,
    closing_episodes,
    evaluation_episodes,
    fitting_episodes,
    proving_episodes,
)
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
from es_envs.spaces import encoder, input_size, is_image, leaves

_ERROR = 0.05  # maximum probability of calling a run solved whose centre never reaches the goal, if scores are normal
_MOST_LOOKS = 10
_SCREENING_EPISODES = 10  # of a look, which ends with them if their mean misses the goal: most lucky centres go here
_BASELINE_EPISODES = 5
_NOTHING, _RANDOM = "doing nothing", "random actions"  # the baselines


def episodes_of_evaluation(run: RunFolder, state: TrainingState, *, last: bool) -> int:
    """Number of episodes in the evaluation of the next centre, 0 if it is not evaluated.

    An evaluation takes at most half of what is free in ``eval_budget``, and waits until the other half is enough for a
    confirmation. The first centre is scored at any price, since it may remain the best.
    """
    config, strategy = run.config, state.strategy
    if config.eval_every == 0 or not (last or strategy.generation % config.eval_every == 0):
        return 0
    wanted = evaluation_episodes(config, strategy.population_size)
    training, length = float(strategy.population_size * config.episodes_per_candidate), 1.0
    if run.history:  # else nothing is known of episodes' lengths yet: the centre's are as long as the candidates'
        # The first centre says little about later ones: it may fall at once.
        trained = (stats for stats in reversed(run.history) if stats.generation > 0)
        usual = run.history[-1].episode_length or 1.0
        training = state.total_steps - state.evaluation_steps + training * usual
        length = next((stats.evaluation.length for stats in trained if stats.evaluation is not None), usual)
    if last:
        return closing_episodes(config, wanted, steps=state.total_steps, length=length)
    most, spent = 2 * max(wanted, config.confirm_episodes), state.evaluation_steps
    free = fitting_episodes(config, most, training_steps=training, evaluation_steps=spent, length=length)
    fewest = min(wanted, FEWEST_EPISODES)
    if run.history and free < fewest + min(config.confirm_episodes, FEWEST_EPISODES):
        return 0
    return min(wanted, max(-(-free // 2), fewest))


def first_episodes(
    run: RunFolder, state: TrainingState, pool: RolloutPool, *, wanted: bool
) -> dict[str, list[Episode]]:
    """Play the first episode of each baseline before anything else, in two workers if there are as many.

    Whether it is the same after many others, ``baselines`` finds out. These steps are counted nowhere, so that no
    result depends on them.
    """
    played: dict[str, list[Episode]] = {}
    if wanted and run.config.eval_every and pool.config.vector_starts in {None, EACH}:
        seeds = episode_seeds(run.config.seed, Purpose.BASELINE, 1) * min(pool.workers, 2)
        with _bearable():
            played[_NOTHING] = pool.rollouts(np.zeros_like(state.strategy.mean), state.statistics, seeds)
        with _bearable():
            played[_RANDOM] = pool.random_rollouts(seeds)
    return played


def baselines(
    run: RunFolder, state: TrainingState, pool: RolloutPool, first: Mapping[str, Sequence[Episode]], *, wanted: bool
) -> tuple[dict[str, Evaluation], list[float] | None]:
    """Score what no learning gives: doing nothing, where all outputs of the policy are 0, and random actions.

    A baseline is left out if the environment does not bear it. A warning and the config say if an episode is not the
    same as it was when it was the ``first``.

    Returns:
        The scores; and, if observations are not normalised, but might be, the smallest and the largest standard
        deviation among their entries at the beginnings and ends of those episodes, except entries that never change.
    """
    played: dict[str, list[Episode]] = {}
    if wanted and run.config.eval_every:
        count = min(_BASELINE_EPISODES, run.config.eval_episodes)
        seeds = episode_seeds(run.config.seed, Purpose.BASELINE, count)
        with _bearable():
            played[_NOTHING] = pool.rollouts(np.zeros_like(state.strategy.mean), state.statistics, seeds)
        with _bearable():
            played[_RANDOM] = pool.random_rollouts(seeds)
    scores = {name: Evaluation.from_episodes(episodes) for name, episodes in played.items()}
    _note_differences(run, first, played)
    space = pool.observation_space
    try:
        ends = [_ends(space, episodes) for episodes in played.values()]
    except (TypeError, ValueError):  # a last observation that no policy sees, such as None
        return scores, None
    _warn_of_a_stranger(run, space, [episode.first_observation for each in played.values() for episode in each])
    is_decided = (  # by the run, by whoever wrote the environment, or by the policy from which the run starts
        run.config.observation_normalization
        or run.definition.recommended.get("observation_normalization") is False
        or run.initial_path.exists()
    )
    if is_decided or not played or any(is_image(part) for _, _, part in leaves(space)):
        return scores, None
    return scores, _spread(np.concatenate(ends))


@contextmanager
def _bearable() -> Iterator[None]:
    """Go on after an episode that failed, but not after a worker that cannot be replaced."""
    try:
        yield
    except RolloutError as error:
        if error.failure is None:
            raise


def _ends(space: gymnasium.Space[Any], episodes: Sequence[Episode]) -> NDArray[np.float32]:
    """The first and the last observation of each episode, ``(n, 2, size)``."""
    encode, size = encoder(space), input_size(space)
    seen = np.empty((len(episodes), 2, size), np.float32)
    for episode, (first, last) in zip(episodes, seen, strict=True):
        encode(episode.first_observation, first)
        encode(episode.last_observation, last)
    return seen


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
        how, so = "begin alike and go on differently", "all numbers may depend on the workers that play"
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


def _warn_of_a_stranger(run: RunFolder, space: gymnasium.Space[Any], starts: Sequence[Any]) -> None:
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


def _spread(ends: NDArray[np.float32]) -> list[float] | None:
    spread = ends.reshape(-1, ends.shape[-1]).std(0, dtype=np.float64)
    spread = spread[spread > 0]
    return [float(spread.min()), float(spread.max())] if spread.size else None


def confirm(
    run: RunFolder,
    state: TrainingState,
    before: Checkpoint,
    pool: RolloutPool,
    results: Results | None,
    evaluated: Sequence[Episode],
) -> tuple[Evaluation | None, bool]:
    """Score a centre that looks solved, or better than the best so far, on a second set of starts.

    The first score selected it, so it is too good on average; the second is, too, as soon as it selects among several
    (see ``_look_number``, ``final_episodes``). The first centre, and the first one that looks better, are confirmed at
    any price: else a run that is stopped early would leave the untrained policy as its best.

    Args:
        run: the run.
        state: its state before the generation.
        before: the centre's checkpoint.
        pool: where it is played.
        results: the generation's, None if it is the last one.
        evaluated: the centre's episodes in its evaluation; none if it was not evaluated.

    Returns:
        The second score, or None; and True if it is solved.
    """
    if not evaluated:
        return None, False
    config, evaluation = run.config, Evaluation.from_episodes(evaluated)
    look = _look_number(run, before.generation, last=results is None) if _reaches(config, evaluation) else None
    if look is not None:
        fewest = proving_episodes(config, **_steps_so_far(state, results, evaluation))
        confirmation, solved = _tested(config, before, pool, look, fewest)
    elif count := _episodes_of_confirmation(run, state, results, evaluation):
        seeds = episode_seeds(config.seed, Purpose.CONFIRMATION, count, before.generation)
        confirmation = Evaluation.from_episodes(pool.rollouts(before.mean, before.statistics, seeds))
        solved = False
    else:
        return None, False
    standing = Standing.of(confirmation, evaluation, solved=solved)
    if standing.beats(state.best):
        state.best = standing
        run.require_held()
        if not state.strategy.rebuildable:
            # Should the bounds grow, this line is lost, and the best centre is that one again.
            if results is None and run.best_path.exists():
                run.best_path.replace(run.former_best_path)
            before = replace(before, strategy={})  # its state may be large, and nobody goes on from here
        before.save(run.best_path)
    return confirmation, solved


def _tested(
    config: TrainConfig, centre: Checkpoint, pool: RolloutPool, look: int, fewest: int
) -> tuple[Evaluation, bool]:
    """Test a centre that looks solved with ``confirm_episodes``, and tell whether it is.

    The ``fewest`` do if all of them are successful or score alike: of scores that scatter, so few may hide a rare
    failure. As soon as the mean misses the goal, or an episode is no success, the look ends.
    """
    most, episodes = config.confirm_episodes, list[Episode]()
    seeds = episode_seeds(config.seed, Purpose.CONFIRMATION, most, centre.generation)
    error = _ERROR / (look * (look + 1)) / (1 if fewest == most else 2)  # of each test
    for count in sorted({min(_SCREENING_EPISODES, fewest), fewest, most}):
        episodes += pool.rollouts(centre.mean, centre.statistics, seeds[len(episodes) : count])
        score = Evaluation.from_episodes(episodes)
        if config.solved_at is None or not _reaches(config, score):
            break
        is_clear = count == fewest and (score.success_rate is not None or score.std == 0)
        if is_clear or count == most:
            bound = lower_bound([episode.fitness for episode in episodes], error)
            if bound >= config.solved_at:
                return score, True
    return score, False


def _episodes_of_confirmation(
    run: RunFolder, state: TrainingState, results: Results | None, evaluation: Evaluation
) -> int:
    """Number of episodes that confirm a centre which may be the best; 0 if it does not look so, or if few would fit."""
    config, count = run.config, run.config.confirm_episodes
    last = results is None
    if last:
        count = closing_episodes(config, count, steps=state.total_steps, length=evaluation.length)
    # At the end, and without a budget, it is known how many episodes follow, whose mean will count.
    promised = count if last or config.eval_budget is None else None
    if not Standing.of(evaluation, episodes=promised).beats(state.best):
        return 0
    if last:
        return count
    fitting = fitting_episodes(config, count, **_steps_so_far(state, results, evaluation))
    confirmed = sum(stats.confirmation is not None for stats in run.history)
    return max(fitting, min(count, FEWEST_EPISODES)) if confirmed < 2 else fitting


def _steps_so_far(state: TrainingState, results: Results | None, evaluation: Evaluation) -> dict[str, float]:
    """What ``fitting_episodes`` is told after a centre's evaluation."""
    training = state.total_steps - state.evaluation_steps + (0 if results is None else results.steps)
    return {
        "training_steps": training,
        "evaluation_steps": state.evaluation_steps + evaluation.steps,
        "length": evaluation.length,
    }


def _reaches(config: TrainConfig, score: Evaluation | None) -> bool:
    if score is None or config.solved_at is None:
        return False
    return score.mean >= config.solved_at and score.success_rate in {None, 1.0}


def _look_number(run: RunFolder, generation: int, *, last: bool) -> int | None:
    """Number of this look at a centre that seems to solve the task, from 1; None: the next look is not due yet.

    Looks are at least 1, 2, 4, 8, ... generations apart, ten at most, and one more at the last centre: with enough
    looks chance alone would succeed. So each look may err with a smaller probability, error / (k (k + 1)) at look k,
    which never sums to more than the error.
    """
    looks, due = 0, 0
    for stats in run.history:
        if stats.generation >= due and _reaches(run.config, stats.evaluation):
            looks, due = looks + 1, stats.generation + 2**looks
    return looks + 1 if last or (generation >= due and looks < _MOST_LOOKS) else None


def final_episodes(run: RunFolder, pool: RolloutPool, evaluation: Evaluation | None, steps: int) -> list[Episode]:
    """Play the best centre from starts that no decision has seen, at the end of a run that has taken so many steps.

    There are none if no centre was evaluated, or the best one is lost. The last one's ``evaluation`` tells how long
    they are.
    """
    try:
        best = find_best(run)
    except CheckpointError:  # which cannot be rebuilt here, on another kind of processor, say: resume has warned
        best = None
    if best is None or evaluation is None:
        return []
    seeds = run.final_seeds
    count = closing_episodes(run.config, len(seeds), steps=steps, length=evaluation.length)
    try:
        return pool.rollouts(best.mean, best.statistics, seeds[:count])
    except RolloutError as error:
        if error.failure is not None:
            error.failure = replace(error.failure, generation=best.generation)
        raise
