"""Confirmation of a centre as the best, or as solved: on further starts, beyond chance."""

from es_core.config.train_config import TrainConfig
from es_core.files import CheckpointError
from es_core.pools.pool import RolloutPool
from es_core.runs.checkpoint import Checkpoint
from es_core.runs.run_folder import RunFolder
from es_core.runs.scores import Evaluation
from es_core.seeding import Purpose, episode_seeds
from es_core.statistics import lower_bound
from es_core.training.rebuilding import find_best
from es_core.training.state import TrainingState

_ERROR = 0.05  # maximum probability of calling a run solved whose centre never reaches the goal


_MOST_LOOKS = 10


def confirm(
    run: RunFolder, state: TrainingState, before: Checkpoint, pool: RolloutPool, evaluation: Evaluation | None
) -> tuple[Evaluation | None, bool]:
    """Score a centre that looks solved, or better than the best so far, on a second set of starts.

    The first score selected it, so it is too good on average; the second is, too, as soon as it selects among several
    (see ``_look_number``, ``final_score``).
    """
    if evaluation is None:
        return None, False
    config = run.config
    look = _look_number(run, before.generation) if _reaches(config, evaluation) else None
    if look is None and state.best is not None and evaluation.mean <= state.best[1]:
        return None, False
    seeds = episode_seeds(config.seed, Purpose.CONFIRMATION, config.confirm_episodes, before.generation)
    episodes = pool.rollouts(before.mean, before.statistics, seeds)
    confirmation = Evaluation.from_episodes(episodes)
    solved = False
    if look is not None and config.solved_at is not None and _reaches(config, confirmation):
        bound = lower_bound([episode.fitness for episode in episodes], _ERROR / (look * (look + 1)))
        solved = bound >= config.solved_at
    if state.best is None or (solved, confirmation.mean) > state.best:
        state.best = (solved, confirmation.mean)
        before.save(run.best_path)
    return confirmation, solved


def _reaches(config: TrainConfig, score: Evaluation | None) -> bool:
    if score is None or config.solved_at is None:
        return False
    return score.mean >= config.solved_at and score.success_rate in {None, 1.0}


def _look_number(run: RunFolder, generation: int) -> int | None:
    """Number of this look at a centre that seems to solve the task, from 1; None: the next look is not due yet.

    Looks are at least 1, 2, 4, 8, ... generations apart, and at most ten: with enough looks chance alone would succeed.
    So each look may err with a smaller probability, error / (k (k + 1)) at look k, which never sums to more than the
    error.
    """
    looks, due = 0, 0
    for stats in run.history:
        if stats.generation >= due and _reaches(run.config, stats.evaluation):
            looks, due = looks + 1, stats.generation + 2**looks
    return looks + 1 if generation >= due and looks < _MOST_LOOKS else None


def final_score(run: RunFolder, pool: RolloutPool) -> Evaluation | None:
    """The best centre's score on starts that no decision has seen; None if no centre was evaluated, or it is lost."""
    try:
        best = find_best(run)
    except CheckpointError:  # which cannot be rebuilt here, on another kind of processor, say: resume has warned
        return None
    if best is None:
        return None
    seeds = episode_seeds(run.config.seed, Purpose.FINAL, run.config.confirm_episodes, 0)
    return Evaluation.from_episodes(pool.rollouts(best.mean, best.statistics, seeds))
