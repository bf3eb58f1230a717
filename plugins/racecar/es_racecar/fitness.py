"""Fitness on the track."""

from es_envs import Episode

FINISH_BONUS = 1.0
TIME_LIMIT = 20.0  # [s], of a lap on RaceTrack-v0


def distance_with_finish(episode: Episode) -> float:
    """Distance from the start at the end of the episode [m], plus 1 for crossing the finish line.

    Without the bonus a crash into the wall behind the line's corner, up to 14.95 m away, would outrank an arrival at
    the line's near end, 14.15 m away.
    """
    distance = float(episode.final_info["distance_from_start"])
    return distance + FINISH_BONUS if episode.final_info["is_success"] else distance


def progress_and_time(episode: Episode) -> float:
    """Progress [laps], and for a whole lap the share of the 20 s that is left: every finish outranks every crash."""
    info = episode.final_info
    return float(info["progress"]) + (max(0.0, 1 - info["time"] / TIME_LIMIT) if info["is_success"] else 0.0)


def race(episode: Episode) -> float:
    """``progress_and_time``, and 1 for who leads at the end of the lap; needs an opponent."""
    info = episode.final_info
    if "lead" not in info:
        raise ValueError("this fitness needs another car: env_kwargs={'opponent': 0.8}")
    return progress_and_time(episode) + float(info["is_success"] and info["lead"] > 0)


def progress(episode: Episode) -> float:
    """Progress along the centre line at the end of the episode [laps], below 0 behind the start."""
    return float(episode.final_info["progress"])


def time(episode: Episode) -> float:
    """Minus the time of the lap [s]; twice the limit of 20 s, minus, for who does not finish it."""
    info = episode.final_info
    return -min(float(info["time"]), 2 * TIME_LIMIT) if info["is_success"] else -2 * TIME_LIMIT
