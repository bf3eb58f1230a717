"""Fitness and behaviour of robots that run."""

from es_envs import Episode

STEPS = 1000  # for which lasting is worth a metre


def progress_and_survival(episode: Episode) -> float:
    """Way along x [m], and a metre for 1000 steps without a fall.

    The reward pays 1 for a step without a fall, and as much for 16.5 mm ahead, less for motors that work: who stands
    still earns so much that evolution goes no further. The way alone is soon gained by a jump into a fall. Here, to
    last is worth a little, so that a robot first learns not to fall, and then that to run is worth far more.
    """
    return float(episode.final_info["progress"]) + episode.length / STEPS


def share_of_time_down(episode: Episode) -> list[float]:
    """Share of the steps after which each foot touched the floor: a gait in a few numbers (Cully et al. 2015)."""
    return list(episode.final_info["down"])
