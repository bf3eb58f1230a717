"""The scripted driver of RaceTrack-v0."""

import numpy as np
import pytest

pytest.importorskip("pybullet")

from es_racecar import tracks
from es_racecar.pursuit import PurePursuit, Tuning, speeds
from es_racecar.track_env import SPLITS, RaceTrackEnv


def test_speeds_are_as_high_as_curves_and_brakes_allow():
    tuning = Tuning(sideways=1.0, braking=2.0, fastest=2.5)
    for number in range(20):
        track = tracks.draw((1, number), SPLITS["train"][2])
        found = speeds(track, tuning)
        assert found.max() <= 2.5
        assert (found**2 * np.abs(track.curvature)).max() <= 1 + 1e-9
        slowing = found**2 - np.roll(found, -1) ** 2
        assert slowing.max() <= 2 * 2 * tracks.SPACING + 1e-9
        tight = np.argmax(np.abs(track.curvature))
        assert found[tight] ** 2 * abs(track.curvature[tight]) == pytest.approx(1)


@pytest.mark.parametrize("split", SPLITS)
def test_the_driver_finishes_laps_on_tracks_of_every_split(split):
    env = RaceTrackEnv(split=split)
    driver, times = PurePursuit(env), []
    for number in range(5):
        observation, info = env.reset(seed=number, options={"track": number})
        for _ in range(500):
            observation, _, terminated, _, info = env.step(driver(observation))
            if terminated:
                break
        times.append(info["time"] if info["is_success"] else 40)
    env.close()
    assert sum(time < 40 for time in times) >= 4
    assert min(times) > 5


def test_the_driver_stops_nowhere_on_an_open_track(tmp_path):
    angles = np.linspace(0, np.pi, 40)
    file = tmp_path / "half.csv"
    file.write_text("".join(f"{4 * np.cos(a):.4f},{4 * np.sin(a):.4f},1.5\n" for a in angles))
    env = RaceTrackEnv(track=str(file))
    driver = PurePursuit(env)
    observation, info = env.reset(seed=0)
    for _ in range(400):
        observation, _, terminated, _, info = env.step(driver(observation))
        if terminated:
            break
    env.close()
    assert info["is_success"]
