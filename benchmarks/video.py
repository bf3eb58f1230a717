"""Films of 640x480 pixels, drawn in software: how long a frame takes, and a film beside the time that it shows.

Usage: python benchmarks/video.py [--quick]

Policies are trained for a few generations in a temporary folder, so that there is something to see for some hundred
frames. A frame is drawn by one process; a film is played, drawn, captioned and encoded, by one process (and the
encoder) and by as many as there are cores.
"""

import tempfile
import time
from contextlib import closing
from functools import partial
from pathlib import Path

from report import Report, alternate, options

from es_core import Run, record, train
from es_core.machine import usable_cores
from es_envs import definition, env_ids

GENERATIONS = {"CartPoleBullet-v0": 12, "BalancingPlate-v0": 20, "RaceCar-v0": 10}
FRAMES = 20


def main() -> None:
    """Measure all in turn, round after round."""
    given = options(__doc__)
    report = Report("video", given.out, packages=("imageio-ffmpeg",))
    cores = usable_cores()
    report.head("", "ms/frame", "film [s]", "1 process [film s/s]", f"{cores} processes [film s/s]", "gain")
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for env_id in ["CartPoleBullet-v0"] if given.quick else env_ids():
            generations = 1 if given.quick else GENERATIONS.get(env_id, 5)
            limits = {"population_size": given.population, "max_episode_steps": 20} if given.quick else {}
            run = train(env_id, run_dir=Path(folder) / env_id, generations=generations, progress=False, **limits)
            film = Path(folder) / "film.mp4"
            seconds = seconds_shown(run, film)
            spreads = alternate(
                {
                    "ms_per_frame": partial(frame_milliseconds, env_id),
                    "one": partial(rate, run, film, seconds, 1),
                    "all": partial(rate, run, film, seconds, cores),
                },
                given.rounds,
            )
            gain = spreads["all"] / spreads["one"]
            cells = (f"{spreads['one']:.2f}", f"{spreads['all']:.2f}", f"{gain:.2f}")
            report.row(env_id, f"{spreads['ms_per_frame']:.1f}", f"{seconds:.1f}", *cells)
            results[env_id] = {"seconds_shown": seconds, **spreads, "gain": gain}
    report.save(results)


def seconds_shown(run: Run, film: Path) -> float:
    """How long the film of a run lasts; it is made for that, which warms the machine's caches, too."""
    [episode] = record(run, film)
    with closing(definition(run.config.env_id).build()) as env:
        return episode.length / float(env.metadata["render_fps"])


def frame_milliseconds(env_id: str) -> float:
    """Milliseconds a picture takes, along an episode of random actions."""
    with closing(definition(env_id).build("rgb_array")) as env:
        env.action_space.seed(0)
        env.reset(seed=0)
        spent = 0.0
        for _ in range(FRAMES):
            _, _, terminated, _, _ = env.step(env.action_space.sample())
            if terminated:
                env.reset(seed=0)
            started = time.perf_counter()
            env.render()
            spent += time.perf_counter() - started
    return 1e3 * spent / FRAMES


def rate(run: Run, film: Path, seconds: float, workers: int) -> float:
    """Seconds of film made in a second."""
    started = time.perf_counter()
    record(run, film, workers=workers)
    return seconds / (time.perf_counter() - started)


if __name__ == "__main__":
    main()
