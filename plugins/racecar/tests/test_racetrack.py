"""RaceTrack-v0: tracks that nobody has seen, the car on them, the lap's fitness, tracks from files."""

import math
from contextlib import closing

import numpy as np
import pytest

pytest.importorskip("pybullet")

from es_racecar import tracks
from es_racecar.fitness import progress, progress_and_time, race, time
from es_racecar.pursuit import PurePursuit
from es_racecar.track_env import CIRCUITS, SPLITS, RaceTrackEnv

import es_envs
from es_core import Checkpoint, evaluate
from es_envs import Episode
from es_envs.bullet import Camera, pybullet


@pytest.fixture(scope="module")
def env():
    env = RaceTrackEnv(start_noise=0.0, lidar_noise=0.0)
    yield env
    env.close()


def drawn(split, count):
    stream, _, kind = SPLITS[split]
    return [tracks.draw((stream, number), kind) for number in range(count)]


def along_the_middle(env):
    """Steer at a point of the centre line, slowly."""
    (x, y), points = env.position, env.track.centre
    ahead_x, ahead_y = points[(env.nearest + 4) % len(points)] - (x, y)
    cos, sin = math.cos(env.heading), math.sin(env.heading)
    aside, square = cos * ahead_y - sin * ahead_x, ahead_x**2 + ahead_y**2
    return np.array([math.atan(0.325 * 2 * aside / square) / 0.6, -0.2], np.float32)


def play(env, seed, choose, steps=500, **reset):
    _, start_info = env.reset(seed=seed, **reset)
    total = 0.0
    for length in range(1, steps + 1):  # noqa: B007
        _, reward, terminated, _, info = env.step(choose(env))
        total += reward
        if terminated:
            break
    return Episode(
        seed=seed, total_reward=total, length=length, terminated=terminated, truncated=not terminated,
        start_info=start_info, final_info=info,
    )  # fmt: skip


def test_the_definition_selects_by_progress():
    definition = es_envs.definition("RaceTrack-v0")
    assert list(definition.fitness_names()) == ["progress", "time", "progress_and_time", "distance"]
    assert definition.max_episode_steps * 1 / 25 == 20


@pytest.mark.parametrize("split", SPLITS)
def test_each_track_of_a_split_can_be_driven(split):
    kind = SPLITS[split][2]
    for track in drawn(split, 100):
        assert track.fault(kind.tightest) == ""
        assert track.length <= 40
        gaps = np.linalg.norm(np.roll(track.centre, -1, axis=0) - track.centre, axis=1)
        assert gaps.max() < 0.26
        assert gaps.min() > 0.2
        turned = np.sign(track.curvature.mean())
        assert turned == (-1 if split == "hard" else 1), "hard tracks are driven clockwise, the others are not"


def test_no_two_splits_share_a_track():
    hashes = {split: {track.hash for track in drawn(split, 200)} for split in SPLITS}
    assert {len(found) for found in hashes.values()} == {200}
    assert len(set.union(*hashes.values())) == 600


def test_a_number_means_the_same_track_everywhere():
    assert [track.hash for track in drawn("test", 3)] == ["41cd1adb42d5", "6fd6979def3f", "1f169c3e0020"]


def test_lines_that_nobody_can_drive_are_drawn_again_and_counted():
    redraws = [track.redraws for track in drawn("hard", 100)]
    assert min(redraws) == 0 < max(redraws)
    with pytest.raises(ValueError, match=r"none of 1000 tracks can be driven, .* choose an easier kind"):
        tracks.draw((0,), tracks.Kind(tightest=50.0))


def test_hard_tracks_are_narrower_and_have_tighter_curves():
    tightest = {split: np.median([np.abs(t.curvature).max() for t in drawn(split, 100)]) for split in SPLITS}
    assert tightest["hard"] > 1.1 * tightest["train"]
    assert drawn("hard", 1)[0].width.max() < drawn("test", 1)[0].width.min()


def test_the_walls_stand_on_both_sides_of_the_whole_track():
    env = RaceTrackEnv(start_noise=0.0, lidar_noise=0.0, lidar_range=20.0, lidar_rays=101)
    env.reset(seed=0, options={"track": 5})
    for (x, y), (ahead_x, ahead_y) in zip(env.track.centre, env.track.tangent, strict=True):
        half = math.atan2(ahead_y, ahead_x) / 2
        turned = (0, 0, math.sin(half), math.cos(half))
        pybullet.resetBasePositionAndOrientation(env.car.body, (x, y, 0), turned, physicsClientId=env.client)
        lidar = 20 * env.observe()[3:]
        assert lidar[0] == pytest.approx(0.75, abs=0.15)
        assert lidar[-1] == pytest.approx(0.75, abs=0.15)
        assert (lidar < 20).all(), "there is no gap anywhere"
    env.close()


def test_a_car_along_the_middle_finishes_the_lap(env):
    episode = play(env, 3, along_the_middle)
    info = episode.final_info
    assert episode.terminated
    assert (info["is_success"], info["hit_wall"], info["progress"]) == (True, False, 1.0)
    assert 10 < info["time"] < 20
    assert episode.length / 25 - 1 / 25 < info["time"] <= episode.length / 25
    assert progress_and_time(episode) == pytest.approx(2 - info["time"] / 20)
    assert episode.total_reward == pytest.approx(progress_and_time(episode))
    assert time(episode) == -info["time"]


def test_a_car_that_drives_straight_on_hits_a_wall(env):
    episode = play(env, 3, lambda _: np.array([0.0, 1.0], np.float32))
    info = episode.final_info
    assert (info["is_success"], info["hit_wall"]) == (False, True)
    assert 0 < progress(episode) == progress_and_time(episode) < 0.5
    assert episode.total_reward == pytest.approx(progress(episode))
    assert time(episode) == -40


def test_doing_nothing_gains_nothing(env):
    episode = play(env, 3, lambda _: np.array([0.0, -1.0], np.float32), steps=100)
    assert not episode.terminated
    assert abs(progress(episode)) < 0.01


def test_a_car_that_faces_backwards_is_reported(env):
    _, info = env.reset(seed=0)
    assert not info["wrong_way"]
    x, y = info["position"]
    half = env.heading / 2 + math.pi / 2
    turned = (0, 0, math.sin(half), math.cos(half))
    pybullet.resetBasePositionAndOrientation(env.car.body, (x, y, 0), turned, physicsClientId=env.client)
    assert env.step(np.array([0.0, -1.0], np.float32))[-1]["wrong_way"]


def test_every_episode_has_a_track_of_its_own(env):
    assert len({env.reset(seed=seed)[1]["track_hash"] for seed in range(30)}) == 30


@pytest.mark.parametrize("count", [1, 8])
def test_a_few_training_tracks_come_again_and_again(count):
    env = RaceTrackEnv(tracks=count)
    numbers = {env.reset(seed=seed)[1]["track"] for seed in range(100)}
    env.close()
    assert numbers == set(range(count))


def test_a_track_is_chosen_by_its_number(env):
    found = [env.reset(seed=seed, options={"track": 7})[1] for seed in (0, 1)]
    assert {info["track"] for info in found} == {7}
    assert {info["track_hash"] for info in found} == {tracks.draw((1, 7), SPLITS["train"][2]).hash}
    for options, message in (
        ({"track": 2**31}, "the option track must be a whole number from 0 to 2147483647, got 2147483648"),
        ({"lap": 1}, r"an option of reset must be one of randomize, track, got 'lap'"),
    ):
        with pytest.raises(ValueError, match=message):
            env.reset(options=options)


def test_positive_steering_turns_left_and_the_car_notices(env):
    env.reset(seed=0)
    for _ in range(15):
        observation, *_ = env.step(np.array([1.0, -0.6], np.float32))
    assert observation[0] > 0.1
    assert observation[1] > 0.1
    assert observation[2] == pytest.approx(0.6, abs=0.1)


def test_noise_of_the_lidar_is_of_the_size_asked_for():
    env = RaceTrackEnv(lidar_noise=0.05, lidar_rays=40)
    env.reset(seed=0)
    seen = np.array([env.observe()[3:] for _ in range(200)])
    env.close()
    inner = (seen.mean(0) > 0.2) & (seen.mean(0) < 0.8)
    assert seen.std(0)[inner].mean() == pytest.approx(0.05, rel=0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "exam"}, "split must be one of train, test, hard, got 'exam'"),
        ({"tracks": 0}, "tracks of split 'train' must be a whole number from 1 to 2147483648, got 0"),
        ({"split": "test", "tracks": 1001}, "tracks of split 'test' must be a whole number from 1 to 1000, got 1001"),
        ({"lidar_rays": 8.0}, "lidar_rays must be a whole number from 1 to 8192, got 8.0"),
        ({"start_noise": "0"}, "start_noise must be from 0 to 0.3, got '0'"),
        ({"mirror": "false"}, "mirror must be True or False, got 'false'"),
        ({"track": 5}, "track must be the name of a CSV file or a circuit, got 5"),
        ({"track": "a\0b"}, "track must be the name of a CSV file or a circuit, got "),
        (
            {"track": "kidney", "randomize": {"difficulty": [0, 1]}},
            "a name in randomize must be one of .*, got 'difficulty'",
        ),
        ({"lidar_rays": 0}, "lidar_rays must be a whole number from 1 to 8192, got 0"),
        ({"lidar_range": 0.0}, "lidar_range must be above 0 and at most 100, got 0.0"),
        ({"lidar_noise": -1}, "lidar_noise must be from 0 to 1, got -1"),
        ({"start_noise": 0.5}, r"start_noise must be from 0 to 0\.3, got 0\.5"),
        (
            {"track": "kidney", "split": "hard"},
            "split='hard' is for drawn tracks, and track names a file: leave one out",
        ),
        ({"track": "kidney", "tracks": 7}, "tracks=7 is for drawn tracks, and track names a file: leave one out"),
        ({"track": "nowhere.csv"}, r"the track file /.*nowhere.csv cannot be read: No such file"),
    ],
    ids=str,
)
def test_wrong_options_are_refused_with_the_value(options, message):
    with pytest.raises(ValueError, match=message):
        RaceTrackEnv(**options)


def circuit(turns=1.0, width=1.5, radius=4.0, points=60):
    """Rows of a circle, or of the part of one."""
    angles = np.linspace(0, 2 * np.pi * turns, points, endpoint=turns < 1)
    return "".join(f"{radius * np.cos(a):.4f},{radius * np.sin(a):.4f},{width}\n" for a in angles)


def straight(*widths):
    """Rows of a straight line with a point every metre."""
    return "".join(f"{x},0,{width}\n" for x, width in enumerate(widths))


def test_a_track_beyond_the_floors_edge_is_moved_onto_it(tmp_path):
    hashes = []
    for east in (0.0, 5e5):
        file = tmp_path / f"{east}.csv"
        rows = (row.split(",", 1) for row in circuit().splitlines())
        file.write_text("".join(f"{float(x) + east:.4f},{rest}\n" for x, rest in rows))
        env = RaceTrackEnv(track=str(file), start_noise=0.0)
        assert play(env, 0, along_the_middle).final_info["is_success"]
        assert np.abs(env.track.centre).max() < 5
        hashes.append(env.track.hash)
        env.close()


def test_a_track_is_nowhere_narrower_than_its_file_says(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text(straight(*[5] * 5, 0.6, 0.6, *[5] * 5))
    width = tracks.read(file).width
    assert width.min() == 0.6
    assert width.max() > 5


@pytest.mark.parametrize("comment", ["# the owner's", '# widths,"estimated', '  #"quoted'])
def test_comments_in_a_track_file_are_anybodys(comment, tmp_path):
    file, plain = tmp_path / "mine.csv", tmp_path / "plain.csv"
    plain.write_text(circuit())
    file.write_text(f"{comment}\n{circuit()}")
    assert tracks.read(file).hash == tracks.read(plain).hash
    file.write_text(f"{comment}\n0,0,1\n1,2\n")
    with pytest.raises(ValueError, match="line 3: expected x, y and a width"):
        tracks.read(file)


def test_a_car_that_starts_askew_has_room(tmp_path):
    file = tmp_path / "narrow.csv"
    file.write_text(circuit(width=0.8, radius=3.0))
    env = RaceTrackEnv(track=str(file))
    for seed in range(100):
        env.reset(seed=seed)
        assert not env.step(STAND)[4]["hit_wall"]
    env.close()
    with pytest.raises(
        ValueError, match=r"start_noise=0\.3 needs a track that is at least 1\.2 m wide where it starts"
    ):
        RaceTrackEnv(track=str(file), start_noise=0.3)


def test_long_steps_are_followed_along_the_track(tmp_path):
    file = tmp_path / "wide.csv"
    file.write_text(circuit(radius=8.0, width=3.0, points=120))
    env = RaceTrackEnv(track=str(file), start_noise=0.0, action_repeat=25)
    env.reset(seed=0)
    for _ in range(5):  # up to two metres each
        _, _, _, _, info = env.step(np.array([0.05, 1.0], np.float32))
        x, y = info["position"]
        assert info["progress"] == pytest.approx(np.arctan2(y, x) % (2 * np.pi) / (2 * np.pi), abs=0.02)
    env.close()


@pytest.mark.parametrize("turns", [1.0, 0.6])
def test_a_track_from_a_file_is_driven_like_any_other(turns, tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("x,y,width\n# from a map\n" + circuit(turns), encoding="utf-8-sig")
    env = RaceTrackEnv(track=str(file), start_noise=0.0)
    episode = play(env, 0, along_the_middle)
    assert env.track.is_closed == (turns == 1)
    assert episode.final_info["is_success"]
    assert episode.final_info["track"] == -1
    assert episode.final_info["track_length"] == pytest.approx(2 * np.pi * 4 * turns, rel=0.01)
    with pytest.raises(ValueError, match="there is no track 0: this environment has a track from a file"):
        env.reset(options={"track": 0})
    env.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (circuit(points=5), "has 5 points: a track needs at least 8"),
        ("0,0,1\n1,2\n", "line 2: expected x, y and a width from 0.6 to 20"),
        ("0,0,1\n1,two,3\n", "line 2: expected x, y and a width from 0.6 to 20"),
        ("0,0,1\n1,nan,3\n", "line 2: expected x, y and a width from 0.6 to 20"),
        ("0,0,1.5m\n", "line 1: expected x, y and a width from 0.6 to 20 .m., with commas between them, got 0,0,1.5m"),
        (circuit().replace(",", ";"), "line 1: expected x, y and a width from 0.6 to 20"),
        ("# Stra\xdfe\n", "is no text in UTF-8: invalid continuation byte at byte 6"),
        ("".join(f"{x / 4},0,1.5\n" for x in range(9)), "its track is 2 m long, expected 6 to 400 m"),
        (circuit(radius=400.0, points=800), "m long, expected 6 to 400 m"),
        (circuit(radius=1e13, points=800), "m long, expected 6 to 400 m"),
        (circuit(radius=1e200, points=800), "its track is inf m long, expected 6 to 400 m"),
        ("0,0,150\n", "line 1: expected x, y and a width from 0.6 to 20 .m., with commas between them, got 0,0,150"),
        ("0,0,-1\n", "line 1: expected x, y and a width from 0.6 to 20"),
        (circuit(width=9.0), r"its curve has a radius of 3.99 m: with a width of 9.00 m it must be above 4.50 m"),
        (
            "".join(f"{6 * np.sin(a):.4f},{3 * np.sin(2 * a):.4f},1\n" for a in np.linspace(0, 6.2, 80)),
            "it crosses or touches itself: between",
        ),
        ("0,0,1\n" + circuit() + circuit().splitlines()[-1] + "\n", "point 62 is where the one before it is"),
        (straight(*[1] * 300), "its track takes up 299 by 0 m, and the floor has 190 m each way"),
        ("x" * 140_000, "is no table: field larger than field limit"),
        (
            "".join(f"{1.5 * np.sin(a):.4f},{1.5 - 1.5 * np.cos(a):.4f},0.8\n" for a in np.linspace(0, 6.3, 40))
            + "".join(f"{0.1 + x},0.03,{min(6.0, 0.8 + 0.3 * x)}\n" for x in range(1, 25)),
            "it crosses or touches itself: between",
        ),
    ],
    ids=[
        "few",
        "short",
        "word",
        "nan",
        "unit",
        "semicolons",
        "latin",
        "dash",
        "county",
        "galaxy",
        "beyond",
        "centimetres",
        "width",
        "wide",
        "eight",
        "twice",
        "runway",
        "field",
        "trumpet",
    ],
)
def test_a_file_that_is_no_track_is_refused_with_the_place(text, message, tmp_path):
    file = tmp_path / "bad.csv"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=message) as caught:
        RaceTrackEnv(track=str(file))
    assert "bad.csv" in str(caught.value)


@pytest.mark.parametrize("name", CIRCUITS)
def test_a_circuit_that_comes_with_the_plugin_is_named_and_can_be_driven(name):
    assert list(CIRCUITS) == ["horseshoe", "kidney", "stadium"]
    env = RaceTrackEnv(track=name)
    driver = PurePursuit(env)
    episode = play(env, 0, driver)
    env.close()
    assert episode.final_info["is_success"]
    assert episode.final_info["track"] == -1


def test_in_a_mirror_left_is_right_and_the_car_drives_the_same_lap():
    plain, mirror = RaceTrackEnv(), RaceTrackEnv(mirror=True)
    seen = set()
    for seed in range(8):
        mirror.reset(seed=seed, options={"track": 5})
        seen.add(mirror.mirrored)
        observation, _ = plain.reset(seed=seed, options={"track": 5})
        if not mirror.mirrored:
            continue
        twin, _ = mirror.reset(seed=seed, options={"track": 5})
        assert twin[:3].tolist() == [observation[0], -observation[1], -observation[2]]
        assert np.abs(twin[3:] - observation[:2:-1]).max() < 0.05  # both are noisy
        for _ in range(20):
            plain.step(np.array([0.4, 0.5], np.float32))
            mirror.step(np.array([-0.4, 0.5], np.float32))
        assert plain.position == mirror.position
    assert seen == {True, False}
    laps = [play(mirror, seed, PurePursuit(mirror)).final_info["is_success"] for seed in range(6)]
    assert sum(laps) >= 5
    plain.close()
    mirror.close()


@pytest.fixture
def against():
    """``against(pace)``: an environment with another car, for the length of the test."""
    made = []

    def build(pace, **options):
        made.append(RaceTrackEnv(start_noise=0.0, lidar_noise=0.0, opponent=pace, **options))
        return made[-1]

    yield build
    for env in made:
        env.close()


STAND = np.array([0.0, -1.0], np.float32)


@pytest.mark.parametrize("track", [None, "horseshoe"])
def test_another_car_starts_two_metres_ahead_and_drives_away(track, against):
    env = against(1.0, track=track)
    _, info = env.reset(seed=0)
    assert info["lead"] == pytest.approx(-2.0, abs=0.1)
    leads = [env.step(STAND)[4]["lead"] for _ in range(100)]
    assert leads[-1] < -8.0
    assert env.step(STAND)[2] is False


def test_the_other_car_drives_round_at_its_pace(against):
    laps = {}
    for pace in (1.0, 0.6):
        env = against(pace)
        env.reset(seed=3)
        for step in range(700):
            *_, info = env.step(STAND)
            if -info["lead"] > env.track.length - 3:  # this one stands in its way
                laps[pace] = step / 25
                break
    assert 8.0 < laps[1.0] < 20.0
    assert laps[0.6] == pytest.approx(laps[1.0] / 0.6, rel=0.15)


def test_the_lidar_sees_the_other_car_but_not_its_own(against):
    env = against(0.5, track="stadium", lidar_rays=41)
    observation, _ = env.reset(seed=0)
    ahead = observation[3:] * 6.0
    assert ahead[18:23].min() == pytest.approx(2.0, abs=0.3)
    assert ahead.argmin() in (0, 40)  # a wall beside it is nearer; its own body would be at 0.1 m
    assert ahead.min() > 0.4


def test_cars_do_not_drive_into_each_other(against):
    env, apart = against(0.8), []
    env.reset(seed=1)
    driver = PurePursuit(env)
    for _ in range(200):
        env.step(driver(None))
        apart.append(math.dist(env.position, env._opponent.position))
    assert any(pybullet.getContactPoints(env.car.body, env._opponent.car.body, physicsClientId=env.client))
    assert min(apart) > 0.4  # they are 0.46 m long


def test_touching_the_other_car_does_not_end_the_episode(against):
    env = against(0.1)
    env.reset(seed=0)
    touched = False
    for _ in range(50):
        *_, info = env.step(along_the_middle(env))
        cars = env.car.body, env._opponent.car.body
        touched = touched or bool(pybullet.getContactPoints(*cars, physicsClientId=env.client))
        assert not info["hit_wall"] or touched
        if touched:
            break
    assert touched
    assert not info["hit_wall"]


def test_motors_are_as_strong_in_both_cars(against):
    env, ahead = against(1.0), []
    for strength in (1.0, 0.001):
        env.reset(seed=3, options={"randomize": {"motor_strength": strength}})
        for _ in range(50):
            env.step(STAND)
        ahead.append(env._opponent.along)
    assert ahead[1] < 0.8 * ahead[0]


def test_who_leads_at_the_end_of_the_lap_wins(against):
    env = against(0.3)
    env.reset(seed=0)
    finished = {"progress": 1.0, "time": 10.0, "is_success": True, "hit_wall": False}
    scores = [race(Episode(seed=0, total_reward=0.0, length=1, terminated=True, truncated=False, start_info={},
                           final_info={**finished, "lead": lead})) for lead in (1.0, -1.0)]  # fmt: skip
    assert scores == [2.5, 1.5]


def test_a_race_without_another_car_says_what_is_missing(env):
    episode = play(env, 0, lambda _: STAND, steps=1)
    assert "lead" not in episode.final_info
    with pytest.raises(ValueError, match="needs another car: env_kwargs="):
        race(episode)


@pytest.mark.parametrize("pace", [0, -1, 3])
def test_another_car_at_an_impossible_pace_is_refused(pace):
    with pytest.raises(ValueError, match=f"opponent must be above 0 and at most 2, got {pace}"):
        RaceTrackEnv(opponent=pace)


def test_the_pretrained_policy_finishes_tracks_that_it_never_drove():
    config = Checkpoint.pretrained("RaceTrack-v0").config
    assert config.env_kwargs.get("split", "train") == "train"

    score = evaluate(Checkpoint.pretrained("RaceTrack-v0"), episodes=4, workers=1, env_kwargs={"split": "test"})

    assert score.success_rate == 1.0


def test_films_show_grass_and_chequered_lines_which_policies_do_not_see(tmp_path):
    file = tmp_path / "straight.csv"
    file.write_text("".join(f"{x},0,1.5\n" for x in range(12)), encoding="utf-8")
    env = RaceTrackEnv(track=str(file), start_noise=0.0, render_mode="rgb_array", width=64, height=64)

    def from_above(x, y):
        camera = Camera(target=(x, y, 0.0), distance=1.0, yaw=0.0, pitch=-89.0)
        env.eyes = lambda: camera
        return env.picture(camera).astype(int), env.seen(64).astype(int)

    with closing(env):
        env.reset(seed=1)
        grass, finish, road = from_above(5.0, 4.0), from_above(10.0, 0.0), from_above(5.0, 0.4)
    filmed, (seen, *_) = zip(grass, finish, road, strict=True)
    assert (filmed[0][..., 1] - filmed[0][..., 2] > 40).all(), "green"
    assert (filmed[1].min() < 20, filmed[1].max() > 230) == (True, True), "black and white"
    assert np.median(filmed[2]) < 100, "asphalt"
    assert np.ptp(seen, axis=-1).max() < 20, "grey"
