import json
import os
import struct

import numpy as np
import pytest
import safetensors.numpy
from conftest import first_fast
from written import rewrite_checkpoint, set_config

import es_core
import es_envs
from es_core import Checkpoint, CheckpointError, Run, train

OPTIONS = {"generations": 2, "population_size": 4, "max_episode_steps": 60, "eval_episodes": 2, "progress": False}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    return train("RaceCar-v0", run_dir=folder, workers=1, observation_normalization=True, confirm_episodes=2, **OPTIONS)


@pytest.fixture
def file(run, tmp_path):
    path = tmp_path / "copy.safetensors"
    path.write_bytes(run.checkpoint_path(2).read_bytes())
    return path


def test_a_checkpoint_survives_saving_with_equal_bytes(run, tmp_path):
    checkpoint = run.checkpoint
    checkpoint.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == run.checkpoint_path(2).read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["again.safetensors"]
    loaded = Checkpoint.load(tmp_path / "again.safetensors")
    assert loaded.config == checkpoint.config == run.config
    assert (loaded.generation, loaded.parameter_hash) == (2, run.history[-1].parameter_hash)
    assert loaded.observation_space == checkpoint.observation_space == es_envs.make("RaceCar-v0").observation_space
    assert loaded.statistics.count == checkpoint.statistics.count > 0


def test_an_actor_plays_the_episode_that_was_scored(run):
    """Driven by hand through plain Gymnasium, with the observation statistics that belong to it."""
    [episode] = record_nothing(run)
    actor, env = run.checkpoint.actor(), es_envs.make("RaceCar-v0")
    observation, _ = env.reset(seed=episode.seed)
    actor.reset()
    for _ in range(episode.length):
        observation, _, _, _, info = env.step(actor(observation))
    assert info["distance_from_start"] == episode.final_info["distance_from_start"]
    np.testing.assert_array_equal(observation, episode.last_observation)
    env.close()


def record_nothing(run):
    from es_core.pools.local import LocalPool
    from es_core.pools.options import PoolOptions
    from es_core.seeding import Purpose, episode_seeds

    with LocalPool(es_envs.definition("RaceCar-v0"), run.config, PoolOptions(workers=1), most=1) as pool:
        checkpoint = run.checkpoint
        return pool.rollouts(checkpoint.mean, checkpoint.statistics, episode_seeds(0, Purpose.TEST, 1))


def test_a_module_gives_the_actors_outputs(run):
    observations = np.random.default_rng(0).uniform(-1, 1, (20, 17)).astype(np.float32)
    actor = run.checkpoint.actor()
    torch = pytest.importorskip("torch")
    with torch.no_grad():
        raw = run.checkpoint.module()(torch.from_numpy(observations)).numpy()
    ours = np.array([actor(observation) for observation in observations])
    np.testing.assert_allclose(np.clip(raw, -1, 1), ours, atol=1e-5)


def test_a_policy_that_is_too_large_for_a_file_is_refused_with_a_remedy(run, tmp_path, monkeypatch):
    best = run.best
    monkeypatch.setattr("es_core.runs.checkpoint._MOST", 100)
    with pytest.raises(ValueError, match=rf"has {best.mean.size} parameters, .*preprocessing=\{{\"resize\": 84\}}"):
        best.save(tmp_path / "large.safetensors")
    assert not list(tmp_path.iterdir())


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.safetensors"):
        Checkpoint.load(tmp_path / "nothing.safetensors")


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_file_is_a_checkpoint_error_and_nothing_else(seed, file):
    data, random = bytearray(file.read_bytes()), np.random.default_rng(seed)
    if seed % 4 == 0:
        data = data[: random.integers(0, len(data))]
    else:
        for _ in range(int(random.integers(1, 5))):
            data[random.integers(0, len(data) if seed % 2 else 2000)] ^= 1 << int(random.integers(8))
    file.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"copy\.safetensors"):
        Checkpoint.load(file)


def set_array(name, value):
    def change(document, arrays):
        arrays[name] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document, arrays: document.update(format=99), "newer version of es-envs .*format 99.*upgrade"),
        (lambda document, arrays: document.pop("config"), "config"),
        (lambda document, arrays: arrays.pop("mean"), "mean"),
        (set_array("mean", np.full(3, 1, np.float32)), "shape"),
        (set_array("statistics.total", np.zeros(3)), "statistics.total has shape"),
        (set_config(sigma=-1), "sigma"),
        (set_config(surprise=1), "surprise"),
        (set_config(policy="mlp", hidden_sizes=[10**9, 10**9]), "shape"),
        (lambda document, arrays: document["observation_space"].update(shape=[10**12]), "too large"),
        (lambda document, arrays: document.update(observation_space={"type": "Spy"}), "Spy"),
        (lambda document, arrays: document.update(progress=5), "TypeError"),
        (lambda document, arrays: arrays["mean"].__setitem__(0, np.nan), "not finite"),
    ],
)
def test_a_file_with_fitting_checksums_but_wrong_content_is_refused(change, message, file):
    with pytest.raises(CheckpointError, match=message):
        Checkpoint.load(rewrite_checkpoint(file, change))


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "foreign.safetensors"
    for content in (b"", b"not a checkpoint", struct.pack("<Q", 2**60) + b"{}", b"\x80\x04."):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="cannot be read"):
            Checkpoint.load(path)
    safetensors.numpy.save_file({"mean": np.zeros(3, np.float32)}, path)
    with pytest.raises(CheckpointError, match="not a checkpoint of es-envs"):
        Checkpoint.load(path)


@pytest.mark.parametrize(
    ("field", "value"),
    first_fast(
        [
            ("env_id", "antigravity:Fly-v0"),
            ("fitness", "antigravity:webbrowser"),
            ("policy", "os:system"),
        ],
        fast=2,
    ),
)
def test_a_file_cannot_make_us_import_a_module(field, value, file, tmp_path):
    rewrite_checkpoint(file, set_config(**{field: value}))
    import sys

    for use in (es_core.evaluate, lambda source: es_core.record(source, tmp_path / "film.mp4")):
        with pytest.raises(ValueError, match=rf"names {field}='{value}'.*trust"):
            use(file)
    assert "antigravity" not in sys.modules


def test_the_name_of_a_strategy_in_a_file_is_looked_up_and_never_imported(file, tmp_path):
    import sys

    rewrite_checkpoint(file, set_config(strategy="antigravity:fly"))
    assert es_core.evaluate(file, episodes=1, workers=1).episodes == 1  # a policy needs no strategy
    with pytest.raises((ValueError, es_core.CheckpointError), match="no strategy is called 'antigravity:fly'"):
        es_core.train(Checkpoint.load(file).config, run_dir=tmp_path / "run")
    assert "antigravity" not in sys.modules


def test_an_argument_in_a_file_cannot_make_us_import_a_module(file, tmp_path):
    """Gymnasium's make imports the part of an id before the colon."""
    (tmp_path / "evil.py").write_text("raise SystemExit('evil code ran')", encoding="utf-8")
    rewrite_checkpoint(
        file,
        set_config(
            env_id="CartPole-v1",
            env_kwargs={"plugin": "es_racecar:x", "deep": [{"env_id": "evil:Evil-v0"}]},
            fitness=None,
        ),
    )
    with pytest.raises(ValueError, match=r"names env_kwargs='evil:Evil-v0'.*trust"):
        es_core.evaluate(file)


def test_a_config_on_disk_cannot_make_us_import_a_module(run, tmp_path):
    import shutil

    folder = shutil.copytree(run.directory, tmp_path / "copy")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "fitness": "antigravity:webbrowser"}), encoding="utf-8")
    with pytest.raises(ValueError, match="antigravity"):
        train("RaceCar-v0", run_dir=folder, resume=True, progress=False)
    assert Run.open(folder).config.fitness == "antigravity:webbrowser"


def test_a_policy_is_refused_where_its_environment_has_changed(run, file):
    rewrite_checkpoint(file, set_config(env_kwargs={"lidar_rays": 4}))
    with pytest.raises(ValueError, match="another observation_space"):
        es_core.evaluate(file, episodes=1)
    with pytest.raises(ValueError, match="another observation_space"):
        es_core.record(file, file.with_suffix(".mp4"))


def test_a_flipped_bit_in_any_array_is_noticed(file):
    """The lowest bit of a number: no other check would find it."""
    content = file.read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    arrays = json.loads(content[8:header])
    del arrays["__metadata__"]
    assert {"mean", "statistics.total"} < set(arrays)
    for array in arrays.values():
        damaged = bytearray(content)
        damaged[header + array["data_offsets"][0]] ^= 1
        file.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=f"^{file}: damaged: the checksum of its arrays does not match$"):
            Checkpoint.load(file)


@pytest.mark.skipif(not hasattr(os, "O_DIRECTORY"), reason="folders cannot be flushed")
def test_a_file_is_flushed_then_renamed_then_its_folder_is_flushed(run, tmp_path, monkeypatch):
    path, done = tmp_path / "best.safetensors", []
    flush, rename = os.fsync, os.replace

    def noted_flush(descriptor):
        status = os.fstat(descriptor)
        done.append("folder" if os.path.samestat(status, tmp_path.stat()) else ("file", status.st_size))
        flush(descriptor)

    def noted_rename(source, target):
        done.append(("rename", source.name, target))
        rename(source, target)

    monkeypatch.setattr(os, "fsync", noted_flush)
    monkeypatch.setattr(os, "replace", noted_rename)
    run.checkpoint.save(path)
    assert done == [
        ("file", path.stat().st_size),
        ("rename", f"best.safetensors.{os.getpid()}.partial", path),
        "folder",
    ]
