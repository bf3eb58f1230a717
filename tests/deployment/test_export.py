"""A policy as a file: it acts as the policy does, says where it comes from, and needs nothing of ours."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import first_fast

torch = pytest.importorskip("torch")

from space_envs import ACTIONS, OBSERVATIONS

from es_core import Checkpoint, ExportError, TrainConfig, evaluate, export, train
from es_core.cli import main
from es_core.policies.by_name import POLICIES, make_policy
from es_core.policies.deployed import Deployed
from es_core.policies.normalization import REFERENCE_SIZE, ObservationStatistics, ReferenceBatch
from es_core.seeding import Purpose, episode_seeds
from es_envs.spaces import parts

EXPORT = sys.modules[export.__module__]
RUN_ONNX = Path(__file__).parents[2] / "examples" / "run_onnx.py"
FIELDS = {
    "generations": 2,
    "population_size": 4,
    "eval_episodes": 2,
    "confirm_episodes": 2,
    "sigma": 0.5,
    "workers": 1,
    "progress": False,
}
SETTINGS = {
    "box": [{}, {"action_squash": "tanh"}, {"action_bins": 4}, {"sample_actions": True}],
    "wide whole box": [{}, {"action_squash": "tanh"}],
    "wide box": [{"action_squash": "tanh"}, {"action_bins": [[-10, 0.1, 30], [0.0, 1.0]]}],
}
KINDS = [(policy, "box") for policy in POLICIES if not policy.startswith("cnn")]
KINDS += [("gru", "nested"), ("mlp", "double"), ("cnn_small", "image"), ("cnn_nature", "image and numbers")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train("CartPole-v1", run_dir=tmp_path_factory.mktemp("runs") / "r", **FIELDS)


def statistics_of(config, policy, observations):
    """Of some observations, as a run would have them."""
    flat = np.empty((len(observations), policy.inputs), np.float32)
    for row, observation in zip(flat, observations, strict=True):
        policy.encode(observation, row)
    if config.virtual_batch_normalization:
        return ReferenceBatch(np.resize(flat, (REFERENCE_SIZE, policy.inputs)))
    if config.observation_normalization:
        return ObservationStatistics(len(flat), flat.sum(0, dtype=float), np.square(flat, dtype=float).sum(0))
    return None


def evolved(kind, seen, done, env_id="Spaces-v0", **settings):
    """A checkpoint of any policy in any spaces, with statistics of some observations; and these observations."""
    space, options, sees = OBSERVATIONS[seen], {"policy": kind}, kind.startswith("cnn")
    has_batch = kind in {"mlp", "cnn_small"}
    options |= {"virtual_batch_normalization": has_batch, "observation_normalization": not (has_batch or sees)}
    space.seed(0)
    observations = [space.sample() for _ in range(2 if sees else 6)]
    config = TrainConfig(env_id=env_id, max_episode_steps=6, **options, **settings)
    policy = make_policy(config, space, ACTIONS[done])
    mean = policy.initial(0) * np.float32(2) + np.float32(0.01)
    checkpoint = Checkpoint(
        config=replace(config, fitness="episode_return"),
        generation=0,
        mean=mean,
        strategy={},
        statistics=statistics_of(config, policy, observations),
        observation_space=space,
        action_space=ACTIONS[done],
    )
    return checkpoint, observations


@pytest.mark.parametrize(("kind", "seen"), first_fast(KINDS, 3))
def test_an_exported_policy_acts_as_the_policy_in_every_space(kind, seen):
    sees = kind.startswith("cnn")
    cases = [(done, settings) for done in ACTIONS for settings in SETTINGS.get(done, [{}])]
    for done, settings in cases[: 1 if sees else None]:
        checkpoint, observations = evolved(kind, seen, done, **settings)
        deployed, act, states = Deployed(checkpoint.policy(), checkpoint.module()), checkpoint.actor(), []
        if deployed.memory is not None:
            states = [state[:1] for state in deployed.memory.examples]
        for observation in observations:
            values = [torch.from_numpy(np.array([part])) for part in parts(OBSERVATIONS[seen], observation)]
            with torch.no_grad():
                found = deployed(*values, *states)
            ours = [np.asarray(part) for part in parts(ACTIONS[done], act(observation))]
            actions, states = found[: len(ours)], found[len(ours) :]
            for action, own in zip(actions, ours, strict=True):
                assert action.numpy()[0].dtype == own.dtype
                np.testing.assert_allclose(action.numpy()[0], own, rtol=0, atol=1e-4, err_msg=f"{done} {settings}")


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("policy.pth", ValueError, r"must end in \.onnx, got 'policy\.pth'"),
        ("policy", ValueError, r"must end in \.onnx, got 'policy'"),
        ("nowhere/policy.onnx", FileNotFoundError, r"there is no folder .*nowhere for the file"),
    ],
)
def test_a_file_that_cannot_be_is_refused(path, error, message, run, tmp_path):
    with pytest.raises(error, match=message):
        export(run, tmp_path / path)


@pytest.mark.parametrize("package", ["onnxscript", "onnxruntime"])
def test_without_a_package_the_message_says_what_to_install(package, run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"\.onnx files need {package}.*: pip install 'es-envs\[export\]'"):
        export(run, tmp_path / "policy.onnx")


@pytest.fixture
def of_a_module(run, tmp_path):
    """A checkpoint whose policy is a module of the tests."""
    config = replace(run.config, policy="small_modules:Remembering", engine="torch")
    policy = make_policy(config, run.best.observation_space, run.best.action_space)
    replace(run.best, config=config, mean=policy.initial(0)).save(tmp_path / "mine.safetensors")
    return tmp_path / "mine.safetensors"


def test_a_policy_outside_the_installed_plugins_is_refused(of_a_module, tmp_path, capsys):
    assert main(["export", str(of_a_module), str(tmp_path / "policy.onnx")]) == 2
    assert (
        "policy='small_modules:Remembering', which is not a function or class of an installed plugin"
        in capsys.readouterr().err
    )


@pytest.mark.long
def test_a_module_of_the_users_is_exported_for_who_trusts_its_name(of_a_module, tmp_path, capsys):
    assert main(["export", str(of_a_module), str(tmp_path / "policy.onnx"), "--trust-names", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["path"] == str(tmp_path / "policy.onnx")
    assert said["observations"] > 20
    assert said["largest_difference"] < 1e-4


@pytest.mark.slow
def test_a_file_acts_in_batches_and_names_the_score_of_its_run(run, tmp_path):
    import onnxruntime

    exported = export(run, tmp_path / "policy.onnx", seed=3)
    session, act = onnxruntime.InferenceSession(exported.path), run.best.actor()
    observations = np.random.default_rng(0).uniform(-1, 1, (7, 4)).astype(np.float32)
    for size in (1, 2, 7):
        (actions,) = session.run(None, {"observation": observations[:size]})
        assert actions.tolist() == [act(observation) for observation in observations[:size]]
    metadata, score = session.get_modelmeta().custom_metadata_map, run.best_score[1]
    assert (metadata["fitness_mean"], metadata["fitness_episodes"]) == (str(score.mean), "2")
    assert str(Path.cwd()).encode() not in exported.path.read_bytes()
    assert list(tmp_path.iterdir()) == [exported.path]


@pytest.fixture
def contrary(monkeypatch):
    """Files do the other of two actions."""

    def write(deployed, metadata):
        def function(values):
            return [1 - deployed(*map(torch.from_numpy, values))[0].numpy()]

        return b"no", function

    monkeypatch.setattr(EXPORT, "_to_onnx", write)


@pytest.mark.usefixtures("contrary")
def test_a_file_that_would_act_otherwise_is_not_written(run, tmp_path):
    with pytest.raises(ExportError, match=r"policy\.onnx would act differently from the policy: in step 0 .* nothing"):
        export(run, tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("contrary")
def test_either_of_two_equal_outputs_may_win(run, tmp_path):
    undecided = replace(run.best, mean=np.zeros_like(run.best.mean))
    exported = export(undecided, tmp_path / "policy.onnx")
    assert exported.near_ties == exported.observations > 0
    assert exported.largest_difference == 0
    assert exported.path.read_bytes() == b"no"


@pytest.mark.slow
def test_the_example_plays_evaluates_episodes_without_torch_or_us(run, tmp_path, python, capsys):
    path = tmp_path / "policy.onnx"
    assert main(["export", str(run.directory), str(path)]) == 0
    said = capsys.readouterr()
    assert said.out.strip() == str(path)
    assert "the same actions" in said.err
    seeds = episode_seeds(4, Purpose.TEST, 3)
    arguments = [str(path), "CartPole-v1", *map(str, seeds)]
    script = (
        f"import runpy, sys; sys.argv = {['run_onnx.py', *arguments]!r}; runpy.run_path({str(RUN_ONNX)!r})\n"
        "print(sorted({'torch', 'es_core', 'es_envs'} & set(sys.modules)))"
    )
    done = python(script)
    assert done.code == 0, done.err
    *played, loaded = done.out.splitlines()
    assert loaded == "[]"
    assert [int(line.split()[0]) for line in played] == list(seeds)
    score = evaluate(run, episodes=3, seed=4, workers=1)
    assert np.mean([float(line.split()[1]) for line in played]) == score.mean


@pytest.mark.slow
def test_an_onnx_file_remembers_and_says_where_it_comes_from(tmp_path):
    import onnxruntime

    fields = {**FIELDS, "policy": "gru", "action_squash": "tanh", "observation_normalization": True}
    run = train("Pendulum-v1", run_dir=tmp_path / "r", max_episode_steps=50, **fields)
    exported = export(run, tmp_path / "policy.onnx")
    assert exported.observations == 200
    assert exported.largest_difference < 1e-5
    content = exported.path.read_bytes()
    assert str(Path(EXPORT.__file__).parent).encode() not in content
    session = onnxruntime.InferenceSession(content)
    assert [(value.name, value.shape) for value in session.get_inputs()] == [
        ("observation", ["batch", 3]),
        ("state", ["batch", 32]),
    ]
    assert [value.name for value in session.get_outputs()] == ["action", "next_state"]
    metadata = session.get_modelmeta().custom_metadata_map
    assert metadata["env_id"] == "Pendulum-v1"
    assert metadata["max_episode_steps"] == str(run.config.max_episode_steps or 200)
    assert metadata["fitness"] == "episode_return"
    assert metadata["parameter_hash"] == run.best.parameter_hash


LONG = [(kind, seen, "box") for kind, seen in KINDS if (kind, seen) != ("mlp", "box")]
LONG += [("mlp", "box", done) for done in ACTIONS]
LONG += [("lstm", "nested", "multi discrete"), ("cnn_small", "image and numbers", "multi binary")]


def test_each_part_of_an_action_is_an_output_of_the_file(register, tmp_path):
    import onnxruntime

    kwargs = {"observation": "box", "action": "dict"}
    env_id = register("Spaces-v0", "space_envs:Spaces", kwargs=kwargs, max_episode_steps=6, fitness="episode_return")
    checkpoint, _ = evolved("gru", "box", "dict", env_id)
    path = export(checkpoint, tmp_path / "policy.onnx").path
    assert [value.name for value in onnxruntime.InferenceSession(path).get_outputs()] == [
        "action_arm", "action_eyes", "action_gear", "action_legs_0", "action_legs_1", "next_state",
    ]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("kind", "seen", "done"), LONG)
def test_every_policy_is_exported_for_every_space(kind, seen, done, register, tmp_path):
    spaces = {"observation": seen, "action": done}
    env_id = register("Spaces-v0", "space_envs:Spaces", kwargs=spaces, max_episode_steps=6, fitness="episode_return")
    for settings in SETTINGS.get(done, [{}]):
        checkpoint, _ = evolved(kind, seen, done, env_id, **settings)
        exported = export(checkpoint, tmp_path / "policy.onnx")
        assert exported.observations == 24
        assert exported.largest_difference < 1e-4


@pytest.mark.long
def test_equal_policies_give_equal_files(run, tmp_path):
    one, two = (export(run, tmp_path / f"{name}.onnx").path for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.long
@pytest.mark.parametrize("env_id", ["CartPoleBullet-v0", "BalancingPlate-v0", "RaceCar-v0"])
def test_our_environments_are_played_as_evaluate_plays_them(env_id, tmp_path, python):
    run = train(env_id, run_dir=tmp_path / "r", max_episode_steps=300, **FIELDS)
    path = export(run, tmp_path / "policy.onnx").path
    seeds = episode_seeds(0, Purpose.TEST, 2)
    script = (
        "import functools, gymnasium, runpy, sys\n"
        "gymnasium.make = functools.partial(gymnasium.make, max_episode_steps=300)\n"
        f"sys.argv = {['run_onnx.py', str(path), f'es_envs.gym:{env_id}', *map(str, seeds)]!r}\n"
        f"runpy.run_path({str(RUN_ONNX)!r})\n"
        "print(sorted({'torch', 'es_core'} & set(sys.modules)))"
    )
    done = python(script)
    assert done.code == 0, done.err
    *played, loaded = done.out.splitlines()
    assert loaded == "[]"
    score = evaluate(run, episodes=2, workers=1)
    assert np.mean([float(line.split()[1]) for line in played]) == pytest.approx(score.returns, abs=0.02)
