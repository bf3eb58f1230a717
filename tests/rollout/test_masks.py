"""Masks of actions: a masked choice is never taken. The environments of these tests fail if one is."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from conftest import TINY
from documents import ROOT
from gymnasium import spaces
from masked_envs import ACTIONS

from es_core import Checkpoint, RolloutError, TrainConfig, evaluate, record, train
from es_core.deployment.exporting import export
from es_core.policies.by_name import make_policy
from es_core.policies.engines import make_actor
from es_envs import testing
from es_envs.masks import allowed, draw, is_allowed

POOLS = {"local": {}, "vector": {"pool": "vector", "vector_envs": 2, "workers": None}}
WAYS = [
    ("discrete", "info"),
    ("multi discrete", "parts"),
    ("multi discrete", "method"),
    ("discrete", "now and then"),
    ("multi discrete", "info"),
    ("discrete", "method"),
]
TAXI = max(name for name in gymnasium.registry if name.startswith("Taxi-v"))
SETTINGS = {**TINY, "population_size": 6, "eval_episodes": 3, "episodes_per_candidate": 2}


@pytest.fixture
def masked(register):
    return lambda action="discrete", way="info": register(
        "Masked-v0", "masked_envs:Masked", kwargs={"action": action, "way": way}, fitness="episode_return",
        max_episode_steps=18,
    )  # fmt: skip


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize(("action", "way"), WAYS)
def test_no_pool_takes_a_masked_choice_however_the_mask_comes(pool, action, way, masked, tmp_path):
    env_id = masked(action, way)
    run = train(env_id, run_dir=tmp_path / "run", **{**SETTINGS, **POOLS[pool]}, sample_actions=True)
    assert run.history[0].fitness_max > run.history[0].fitness_min
    assert {*run.history[0].baselines} >= {"random actions"}
    assert run.evaluate(episodes=3, workers=1).episodes == 3


@pytest.mark.slow
def test_pools_and_engines_give_a_masked_run_the_same_scores(masked, tmp_path):
    env_id = masked("multi discrete")
    ways = [{"workers": 1}, {"workers": 2}, {"workers": 1, "engine": "torch"}, POOLS["vector"]]
    runs = [train(env_id, run_dir=tmp_path / str(n), **{**SETTINGS, **how}) for n, how in enumerate(ways)]
    scores = [[stats.fitness_mean for stats in run.history[:1]] for run in runs]
    assert scores[0] == scores[1]
    np.testing.assert_allclose(scores[1:], scores[:1] * 3)
    assert runs[0].history[0].parameter_hash == runs[1].history[0].parameter_hash


def test_reference_batches_scripts_and_films_keep_masks_too(masked, tmp_path):
    env_id = masked()
    fields = {"policy": "mlp", "hidden_sizes": (4,), "virtual_batch_normalization": True}
    run = train(env_id, run_dir=tmp_path / "run", **{**SETTINGS, **fields})
    assert record(run, tmp_path / "film.mp4", width=64, height=48)[0].length == 6
    assert evaluate(Checkpoint.scripted(env_id, "random", env_kwargs=None), episodes=3, workers=1).episodes == 3


def test_without_masks_these_environments_fail(masked, tmp_path):
    with pytest.raises(RolloutError, match=r"choice \d was taken, and the mask is"):
        train(masked(), run_dir=tmp_path / "run", **SETTINGS, action_masks=False)
    assert TrainConfig(env_id=TAXI).action_masks
    assert not TrainConfig.from_json({"env_id": TAXI}).action_masks  # of a run before there were masks


@pytest.mark.parametrize("action", ["discrete", "multi discrete"])
@pytest.mark.parametrize("fields", [{}, {"sample_actions": True}], ids=["best", "drawn"])
def test_engines_take_the_best_choice_that_is_allowed(action, fields):
    space, generator = ACTIONS[action], np.random.default_rng(0)
    config = TrainConfig(env_id="Walk-v0", policy="mlp", hidden_sizes=(6,), **fields)
    policy = make_policy(config, spaces.Box(-1, 1, (3,), np.float32), space)
    parameters = generator.normal(0, 1, policy.size).astype(np.float32)
    actors = [make_actor(policy, parameters, engine=engine) for engine in ("compiled", "torch")]
    for actor in actors:
        actor.reset(noise_seed=3 if fields else None)
    sizes = [5] if action == "discrete" else [2, 4]
    for _ in range(40):
        masks = [generator.integers(0, 2, size) for size in sizes]
        for mask in masks:
            mask[generator.integers(len(mask))] = 1
        observation = generator.uniform(-1, 1, 3).astype(np.float32)
        one, other = (actor(observation, np.concatenate(masks)) for actor in actors)
        np.testing.assert_array_equal(one, other)
        assert space.contains(one)
        assert is_allowed(space, one, tuple(masks))
        if not fields:
            raw = np.split(actors[0].outputs(observation), np.cumsum(sizes)[:-1])
            best = [np.where(mask, part, -np.inf).argmax() for mask, part in zip(masks, raw, strict=True)]
            np.testing.assert_array_equal(np.ravel(one) - np.ravel(space.start), best)


class Obedient:
    """A fitness that fails if an action is not in the mask that the step before gave."""

    def __init__(self):
        self.mask = None

    def on_step(self, observation, action, reward, info):
        assert self.mask is None or self.mask[action]
        self.mask = info["action_mask"]

    def result(self, episode):
        return episode.total_reward


def test_gymnasiums_taxi_never_drives_against_a_wall(tmp_path):
    run = train(TAXI, run_dir=tmp_path / "run", **{**SETTINGS, "sigma": 1.0}, fitness=Obedient)
    assert run.history[0].fitness_max > -2000  # all steps are allowed ones, which cost 1


def test_a_repeated_action_ends_where_it_is_masked(masked, tmp_path):
    run = train(masked(), run_dir=tmp_path / "run", **SETTINGS, preprocessing={"skip": 3})
    assert run.evaluate(episodes=30, workers=1).length > 2  # which six steps would be, three at a time


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mlp", "gru"])
def test_an_exported_policy_takes_the_mask_as_an_input(policy, masked, tmp_path):
    import onnxruntime

    run = train(
        masked("multi discrete", "parts"), run_dir=tmp_path / "run", **{**SETTINGS, "hidden_sizes": (4,)}, policy=policy
    )
    assert export(run, tmp_path / "policy.onnx").observations == 24
    inputs = onnxruntime.InferenceSession(tmp_path / "policy.onnx").get_inputs()
    assert [(value.name, value.shape[1:]) for value in inputs[:2]] == [("observation", [3]), ("action_mask", [6])]


def test_the_example_for_onnx_gives_a_file_its_masks(tmp_path):
    run = train(TAXI, run_dir=tmp_path / "run", **{**SETTINGS, "sigma": 1.0})
    path = export(run, tmp_path / "policy.onnx").path
    words = [sys.executable, str(ROOT / "examples" / "run_onnx.py"), str(path), TAXI, "1"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "1 -200.0\n"  # it never tries to pick up where nobody is, which costs 10


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize(
    ("action", "way", "message"),
    [
        ("box", "info", r"info\['action_mask'\] is for Discrete and MultiDiscrete actions, and those here are Box"),
        ("discrete", "short", r"info\['action_mask'\] must have 5 entries, 0 or 1 for each choice of Discrete\(5"),
        ("multi discrete", "empty", r"info\['action_mask'\] must allow a choice of each entry of MultiDiscrete"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*a step failed, so all copies are replaced")
def test_masks_that_cannot_be_kept_are_refused_with_the_reason(pool, action, way, message, masked, tmp_path):
    with pytest.raises(RolloutError, match=message):
        train(masked(action, way), run_dir=tmp_path / "run", **{**SETTINGS, **POOLS[pool]})
    with pytest.raises(testing.ConformanceError, match=message):
        testing.check_env("Masked-v0")


def test_algorithms_that_know_no_masks_refuse_them(masked, tmp_path):
    with pytest.raises(RolloutError, match="nothing that algorithms of Stable-Baselines3 obey here"):
        train(masked(), run_dir=tmp_path / "run", strategy="sb3:ppo", steps_per_generation=64, generations=1)


@pytest.mark.slow
@pytest.mark.parametrize(("action", "way"), WAYS[:3])
def test_the_conformance_kit_keeps_masks(action, way, masked):
    report = testing.check_env(masked(action, way))
    assert all(result.status != "failed" for result in report.results)


def test_random_actions_are_uniform_among_those_that_are_allowed():
    space = spaces.MultiDiscrete([2, 4], start=[0, 3])
    space.seed(0)
    mask = ([0, 1], [1, 0, 1, 1])
    drawn = np.array([draw(space, mask) for _ in range(3000)])
    assert allowed(space, mask).tolist() == [False, True, True, False, True, True]
    assert {*drawn[:, 0]} == {1}
    values, counts = np.unique(drawn[:, 1], return_counts=True)
    assert values.tolist() == [3, 5, 6]
    np.testing.assert_allclose(counts / 3000, 1 / 3, atol=0.04)
