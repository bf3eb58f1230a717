"""Budgets: candidates, steps of an episode, episodes of an evaluation, and the bounds that end a run."""

import math

from es_core.config.plan import Plan
from es_core.config.train_config import TrainConfig
from es_envs import EnvDefinition

# At the start episodes may last only a few steps, and a generation's steps would allow a huge population. But all its
# candidates give one update of the mean, and where a few of them see the way, many short generations get further.
_GROWTH = 4
_FEWEST_CANDIDATES = 16  # the direction in which fewer point is little more than chance
FEWEST_EPISODES = 5  # episodes of an evaluation: fewer say too little to be worth their steps
_FEWEST_FINAL_EPISODES = 10


def step_limit(definition: EnvDefinition, config: TrainConfig) -> int:
    """Maximum number of steps of a whole episode.

    Raises:
        ValueError: neither the definition nor the config has a limit.
    """
    of_definition = definition.max_episode_steps
    if of_definition is not None:  # steps of the environment itself, of which one of ours may skip some
        of_definition = max(1, of_definition // config.preprocessing.get("skip", 1))
    limits = [limit for limit in (of_definition, config.max_episode_steps) if limit is not None]
    if not limits:
        raise ValueError(
            f"{definition.label} has no step limit, and an episode might never end: set max_episode_steps in the "
            "definition, or in the config"
        )
    return min(limits)


def candidates_within(config: Plan, doublings: int = 0) -> tuple[int, int]:
    """Smallest and largest number of candidates of a generation whose steps have doubled so often."""
    first = config.population_size
    return min(first, _FEWEST_CANDIDATES), first * _GROWTH << doublings


def largest_population(config: Plan) -> int:
    """Largest number of candidates that a generation of a run may have."""
    steps = config.steps_per_generation
    if steps is None:
        return config.population_size << config.restarts
    return candidates_within(config, config.restarts + most_doublings(config))[1]  # each beginning doubles them, too


def most_doublings(config: Plan) -> int:
    """Number of times that the steps of a generation may double in a search."""
    steps = config.steps_per_generation
    return 0 if steps is None else ((config.steps_limit or steps) // steps).bit_length() - 1


def evaluation_episodes(config: TrainConfig, candidates: int) -> int:
    """Number of episodes in an evaluation of the centre of so many ``candidates``."""
    if config.eval_share is None:
        return config.eval_episodes
    exact = config.eval_share * candidates * config.episodes_per_candidate
    return max(1, math.ceil(round(exact, 6)))  # 0.07 * 100 is a little more than 7


def affordable_episodes(
    config: TrainConfig, wanted: int, *, training_steps: float, evaluation_steps: float, length: float
) -> int:
    """Number of the centre's episodes, at most ``wanted``, that fit into ``eval_budget``; 0 if only a few would.

    Args:
        config: the run's config.
        wanted: number of episodes without a budget.
        training_steps: environment steps of the populations' episodes, this generation's included.
        evaluation_steps: those of the centre's episodes so far that count (``GenerationStats.budgeted_steps``).
        length: steps that one more episode of the centre takes.
    """
    share = config.eval_budget
    if share is None or share == 1:
        return wanted
    free = share / (1 - share) * training_steps - evaluation_steps
    fitting = min(wanted, int(free / length))
    return fitting if fitting >= min(wanted, FEWEST_EPISODES) else 0


def final_score_episodes(config: TrainConfig, *, steps: int, length: float) -> int:
    """Number of episodes, at most ``confirm_episodes``, of the final score of a run that ends unsolved.

    They take at most ``eval_budget`` of the run's ``steps`` once more, but ten are played at any price. ``length``:
    steps of one episode.
    """
    share = config.eval_budget
    if share is None or share == 1:
        return config.confirm_episodes
    return min(config.confirm_episodes, max(_FEWEST_FINAL_EPISODES, int(share * steps / length)))


def bound_reached(config: TrainConfig, *, generations: int, steps: int, episodes: int) -> str | None:
    """Name of the bound that a run has reached, or None.

    Args:
        config: the run's config.
        generations: number of generations done.
        steps: environment steps of all episodes.
        episodes: number of candidates' episodes.
    """
    shares = _shares(config, generations, steps, episodes)
    return next((name for name, share in shares.items() if share >= 1), None)


def share_done(config: TrainConfig, *, generations: int, steps: int, episodes: int) -> float:
    """Share of a run that is done, 0 to 1, by the bound that it will reach first; 0 if it has none."""
    return min(1.0, max(_shares(config, generations, steps, episodes).values(), default=0.0))


def _shares(config: TrainConfig, generations: int, steps: int, episodes: int) -> dict[str, float]:
    used = {"generations": generations, "max_steps": steps, "max_episodes": episodes}
    bounds = {name: getattr(config, name) for name in used}
    return {name: used[name] / bound for name, bound in bounds.items() if bound is not None}
