"""Files that somebody or something has spoilt: a sentence says so, and nothing else happens."""

import contextlib
import copy
import dataclasses
import json
import random
import re
import shlex
import shutil
import signal
import struct
import sys
import tracemalloc
from functools import partial

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from conftest import first_fast
from small_envs import Walk
from written import nested, read_checkpoint, set_config, write_checkpoint

from es_core import Checkpoint, CheckpointError, RolloutError, Run, evaluate, rebuild, record, train, train_seeds
from es_core.cli import main
from es_core.config.trust import require_trusted
from es_core.evaluation.scoring import find_policy, require_same_spaces
from es_core.policies.by_name import make_policy
from es_envs import import_path

SETTINGS = {
    "openai_es": {"observation_normalization": True, "episode_cap": "growing", "episode_cap_start": 2},
    "cma_es": {"strategy": "cma_es", "population_size": 4},
    "ga": {"strategy": "ga", "policy": "rnn", "hidden_sizes": (3,), "steps_per_generation": 40},
    "virtual": {"virtual_batch_normalization": True, "policy": "mlp", "hidden_sizes": (3,), "optimizer": "clipup"},
}


@pytest.fixture(scope="module")
def runs(walk, tiny, tmp_path_factory):
    """Finished runs of several kinds, for reading."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        name: train(walk, run_dir=folder / name, **{**tiny, "generations": 2, "checkpoint_every": 1, **fields})
        for name, fields in SETTINGS.items()
    }


@pytest.fixture(scope="module")
def contents(runs):
    """Description and arrays of a checkpoint of each run."""
    return [read_checkpoint(run.checkpoint_path(1)) for run in runs.values()]


@pytest.fixture
def marked(tmp_path, monkeypatch):
    """A module ``marked`` that leaves a mark when it is imported; the mark's path."""
    (tmp_path / "modules").mkdir()
    mark = tmp_path / "mark"
    (tmp_path / "modules" / "marked.py").write_text(f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n")
    monkeypatch.syspath_prepend(tmp_path / "modules")
    return mark


def box(*shape, dtype="float32", low=0, high=1):
    return {"type": "Box", "shape": list(shape), "dtype": dtype, "low": low, "high": high}


VALUES = [
    None, True, False, 0, -1, 1, 2, 3.5, 1e308, 5e-324, 10**9, 10**18, 2**63, 10**400, float("nan"), float("inf"),
    "", "x", "\0", "\ud800", "x" * 10_000, "marked:Env", "mlp", "rnn", "cma_es", "marked.Env", "nan",
    [], [0], [-1], [10**9] * 3, [[1], [2]], ["marked:Env"], nested(40), nested(300),
    {}, {"a": 1}, {"env_id": "marked:Env"}, {"marked:Env": 0},
]  # fmt: skip
SPACES = [
    box(10**9), box(10**5, 10**5), box(0, 10**18), box(2**60, 2**60), box(10**7, dtype="uint8"), box(-1), box(2.5),
    box(2, dtype="O"), box(2, dtype="S1000000000"), box(2, dtype="(1000000000,)f4"), box(2, dtype="f4,f4"),
    box(2, dtype="float128"), box(2, dtype=["f4"]), box(2, dtype="uint8", low=-1), box(2, low=[0]), box(2, low="a"),
    box(2, high=[1e300, 1]), box(2, high=1e300), box(2, low=1, high=0), box(2, dtype="int8", high=[300, 1]), box(),
    {"type": "Discrete", "n": 10**18, "start": 0}, {"type": "Discrete", "n": 10**30, "start": 0},
    {"type": "Discrete", "n": 0, "start": 0}, {"type": "Discrete", "n": 2, "start": -(2**70)},
    {"type": "MultiBinary", "shape": [10**12]}, {"type": "MultiBinary", "shape": []},
    {"type": "MultiDiscrete", "nvec": [10**18, 1], "start": [0, 0]},
    {"type": "MultiDiscrete", "nvec": [[2], [2, 3]], "start": 0}, {"type": "MultiDiscrete", "nvec": [0], "start": [0]},
    {"type": "Tuple", "spaces": [box(10**6)] * 100}, {"type": "Tuple", "spaces": []}, {"type": "Tuple", "spaces": 3},
    {"type": "Dict", "spaces": {"a": box(10**6), "b": box(10**6), "c": box(10**6)}}, {"type": "Dict", "spaces": [1]},
    {"type": "Space"}, {"type": ["Box"]}, {"type": "marked:Env"},
]  # fmt: skip
DTYPES = ["float16", "float64", "int8", "int64", "uint8", "bool", "complex64"]


def places(value, path=()):
    """Where something stands in a description."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def change_description(chance, document, arrays):
    """Something in it becomes something else, is left out, or joins it."""
    section = chance.choice(sorted(document))
    *path, last = chance.choice([place for place in places(document) if place[0] == section])
    inner = document
    for key in path:
        inner = inner[key]
    match chance.randrange(6):
        case 0:
            del inner[last]
        case 1 if isinstance(inner, dict):
            inner[chance.choice(["surprise", "format", "marked:Env"])] = chance.choice(VALUES)
        case _:
            inner[last] = chance.choice(VALUES)


def change_space(chance, document, arrays):
    document[chance.choice(["observation_space", "action_space"])] = chance.choice(SPACES)


def change_array(chance, document, arrays):
    """An array has another type, another shape, or entries that cannot be; or another name, or none."""
    name = chance.choice(sorted(arrays))
    array = arrays[name]
    match chance.randrange(7):
        case 0:
            arrays[name] = array.astype(chance.choice(DTYPES))
        case 1:
            shapes = [(0,), (), (1, *array.shape), (array.size + 1,), (2, 3), (0, 10**12), (1,) * 30]
            arrays[name] = np.zeros(chance.choice(shapes), array.dtype)
        case 2 if array.size and array.dtype.kind == "f":
            array.flat[chance.randrange(array.size)] = chance.choice([np.nan, np.inf, -np.inf])
        case 3 if array.size and array.dtype.kind == "f":
            array.flat[chance.randrange(array.size)] = chance.choice([1, -1]) * np.finfo(array.dtype).max
        case 4:
            del arrays[name]
        case 5:
            arrays[chance.choice(["mean", "reference", "strategy.mean", "strategy.surprise", "marked"])] = array
        case _:
            document["observations"] = chance.choice([None, -1, 0, 1, 10**30, 2.5, "many"])


def resign(chance, path, document, arrays):
    """Nonsense with valid checksums."""
    document = copy.deepcopy(document)
    arrays = {name: array.copy() for name, array in arrays.items()}
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        change = chance.choice([change_description, change_description, change_space, change_array])
        # What one change has taken away, the next cannot change.
        impossible = (KeyError, IndexError, ValueError, np.exceptions.ComplexWarning)
        with contextlib.suppress(*impossible), np.errstate(all="ignore"):
            change(chance, document, arrays)
    write_checkpoint(path, document, arrays)


def break_text(chance, path, document, arrays):
    """The description is no such JSON, or says two things."""
    depth = chance.choice([1_000, 100_000])
    insertions = ["[" * depth, "[" * depth + "]" * depth, "9" * 5000, "1e999", "NaN", '"', "{}", '{"a":' * depth]

    def broken(text):
        place = chance.randrange(len(text))
        return chance.choice([text[:place], text[:place] + chance.choice(insertions) + text[place:], text * 2, "[]"])

    write_checkpoint(path, document, arrays, broken)


def break_header(chance, path, document, arrays):
    """The file's own table of contents lies about lengths, offsets, shapes and types."""
    data = write_checkpoint(path, document, arrays).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, rest = json.loads(data[8 : 8 + length]), data[8 + length :]
    entry = header[chance.choice([name for name in header if name != "__metadata__"])]
    begin, end = entry["data_offsets"]
    match chance.randrange(5):
        case 0:
            offsets = [[end, begin], [begin, end + 1], [0, end], [-1, end], [begin, 2**63], [begin, begin], [], "a"]
            entry["data_offsets"] = chance.choice(offsets)
        case 1:
            entry["shape"] = chance.choice([[-1], [2**63], [2**40, 2**40], [1] * 200, [0, 2**62], "a", [[]], []])
        case 2:
            entry["dtype"] = chance.choice(["BF16", "F8_E4M3", "F8_E5M2", "F4", "C64", "BOOL", "F64", "X", None, 7])
        case 3:
            header["__metadata__"] = chance.choice([{}, {"es_envs": ""}, {"es_envs": 7}, {"other": "x"}, [], None])
        case _:
            header = chance.choice([{}, [], None, "header", {"__metadata__": header["__metadata__"]}])
    text = json.dumps(header).encode()
    claimed = chance.choice([len(text)] * 6 + [0, 1, len(text) - 1, len(text) + 1, 2**31, 2**62, 2**64 - 1])
    path.write_bytes(struct.pack("<Q", claimed) + text + rest)


def damage_bytes(chance, path, document, arrays):
    """What disks and networks do."""
    data = bytearray(write_checkpoint(path, document, arrays).read_bytes())
    place = chance.randrange(len(data))
    match chance.randrange(5):
        case 0:
            data = data[:place]
        case 1:
            for _ in range(chance.randrange(1, 6)):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        case 2:
            data[place : place + 100] = bytes(min(100, len(data) - place))
        case 3:
            data[place:place] = chance.randbytes(chance.randrange(1, 50))
        case _:
            data[:8] = struct.pack("<q", chance.choice([-1, 0, 1, 7, 2**20, 2**40, 2**63 - 1]))
    path.write_bytes(data)


DAMAGES = [resign, resign, resign, break_text, break_header, damage_bytes]
MOST_MEMORY = 50_000_000


@contextlib.contextmanager
def no_longer_than(seconds):
    """End a test that hangs."""

    def hangs(signum, frame):
        pytest.fail(f"no answer after {seconds} s")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def load_spoilt(path, number, contents):
    """Whether a file is refused; one that is not can be used."""
    chance = random.Random(number)
    chance.choice(DAMAGES)(chance, path, *chance.choice(contents))
    with no_longer_than(20):
        try:
            checkpoint = Checkpoint.load(path)
        except CheckpointError as error:
            assert str(path) in str(error)  # noqa: PT017
            assert len(str(error)) < 2000  # noqa: PT017
            return True
        if ":" not in checkpoint.config.policy:
            with np.errstate(all="ignore"):  # parameters near the largest float32 overflow, as they would in training
                checkpoint.actor()
        checkpoint.save(path)
        return False


def refuse_all(numbers, path, contents, marked):
    refused = 0
    tracemalloc.start()
    try:
        for number in numbers:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            try:
                refused += load_spoilt(path, number, contents)
            except Exception as error:
                raise AssertionError(f"file {number} leads to {error!r}") from error
            assert tracemalloc.get_traced_memory()[1] - before < MOST_MEMORY, f"file {number}"
    finally:
        tracemalloc.stop()
    assert not marked.exists()
    assert "marked" not in sys.modules
    assert refused > len(numbers) / 2  # the others were spoilt where it does not show, in the seed, say


def test_spoilt_checkpoints_are_refused_and_do_nothing_else(contents, marked, tmp_path):
    refuse_all(range(200), tmp_path / "spoilt.safetensors", contents, marked)


@pytest.mark.long
def test_ten_thousand_spoilt_checkpoints_are_refused_and_do_nothing_else(contents, marked, tmp_path):
    refuse_all(range(200, 10_200), tmp_path / "spoilt.safetensors", contents, marked)


def set_statistics(**values):
    def change(document, arrays):
        document["observations"] = values.pop("count", document["observations"])
        for name, value in values.items():
            arrays[f"statistics.{name}"][0] = value

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda document, arrays: document.update(format=2), r"a newer version .* \(format 2, this one reads 1\): upg"),
        (lambda document, arrays: document.update(format="1"), "format '1' is not the 1 that this version"),
        (set_config(surprise=1), r"this version has no such settings \(a newer one may have\): \['surprise'\]"),
        (lambda document, arrays: document["config"].pop("env_id"), "a config must have an env_id"),
        (set_config(hidden_sizes=[10**9, 10**9]), "mean has shape .* its policy needs"),
        (set_config(population_size=10**12), "population_size must be a whole number of at least 2, at most 1000000"),
        (set_config(action_bins=10**12), "mean has shape .* its policy needs"),
        (set_config(preprocessing={"stack": 10**9}), "preprocessing must be a dict whose 'stack' is .* at most 1000"),
        (set_config(sigma=10**400), "sigma must be a finite number above 0, or 'auto', got 1000.* characters"),
        (set_config(env_kwargs={"a": nested(300)}), "env_kwargs must be a dict .*nested at most 50 deep"),
        (set_statistics(count=-1), "observations is -1, expected a whole number of at least 0"),
        (set_statistics(total=1e300), "FloatingPointError: overflow"),
        (lambda document, arrays: document.update(observation_space=box(10**9)), "a space .* bytes is too large"),
        (lambda document, arrays: document.update(generation=2.5), "generation is 2.5, expected a whole number"),
        (lambda document, arrays: document["strategy"].update(generation="two"), "of the strategy is 'two', expected"),
        (
            lambda document, arrays: arrays.update(other=arrays["mean"]),
            r"it has arrays that no checkpoint has: \['other'\]",
        ),
        (lambda document, arrays: arrays.update({"strategy.x": np.zeros(2, "c8")}), "has type complex64, expected num"),
    ],
)
def test_nonsense_with_fitting_checksums_is_named(change, sentence, runs, tmp_path):
    document, arrays = read_checkpoint(runs["openai_es"].checkpoint_path(2))
    change(document, arrays)
    with pytest.raises(CheckpointError, match=sentence):
        Checkpoint.load(write_checkpoint(tmp_path / "spoilt.safetensors", document, arrays))


@pytest.mark.parametrize(
    ("name", "change", "use"),
    [
        ("ga", set_config(weight_decay=0.5), lambda path: find_policy(path, generation=None, candidate=0, trust=False)),
        (
            "ga",
            set_config(strategy="absent"),
            lambda path: find_policy(path, generation=None, candidate=0, trust=False),
        ),
        (
            "openai_es",
            lambda document, arrays: document["observation_space"].update(low=-99.0),
            lambda path: require_same_spaces(Checkpoint.load(path), Walk()),
        ),
    ],
)
def test_a_damaged_checkpoint_is_named_by_everything_that_reads_it(name, change, use, runs, tmp_path):
    document, arrays = read_checkpoint(runs[name].checkpoint_path(1))
    change(document, arrays)
    path = write_checkpoint(tmp_path / "spoilt.safetensors", document, arrays)
    with pytest.raises((CheckpointError, ValueError), match=f"^{path}: "):
        use(path)


def test_a_checkpoint_from_before_a_setting_existed_has_its_default(runs, tmp_path):
    document, arrays = read_checkpoint(runs["openai_es"].checkpoint_path(2))
    assert document["config"].pop("survival_bonus") == 0
    older = Checkpoint.load(write_checkpoint(tmp_path / "older.safetensors", document, arrays))
    assert older.config == runs["openai_es"].config


def test_a_reference_batch_of_another_shape_is_refused(runs, tmp_path):
    document, arrays = read_checkpoint(runs["virtual"].checkpoint_path(2))
    arrays["reference"] = arrays["reference"][:-1]
    with pytest.raises(CheckpointError, match=r"reference has shape \(127, 2\), its policy needs \(128, 2\)"):
        Checkpoint.load(write_checkpoint(tmp_path / "spoilt.safetensors", document, arrays))


def test_actions_whose_table_would_fill_the_memory_are_refused(runs, tmp_path):
    document, arrays = read_checkpoint(runs["openai_es"].checkpoint_path(2))
    choices = [1] * 30_000 + [30_000]  # a table of 900 million entries, for a policy of 180 000 parameters
    document["action_space"] = {"type": "MultiDiscrete", "nvec": choices, "start": [0] * len(choices)}
    arrays["mean"] = np.zeros(3 * sum(choices), np.float32)
    with pytest.raises(CheckpointError, match="actions of 30001 entries with up to 30000 choices are too large"):
        Checkpoint.load(write_checkpoint(tmp_path / "spoilt.safetensors", document, arrays))


# ---- a state that only a resumed run reads


@pytest.fixture
def unfinished(runs, tmp_path):
    """``unfinished(name)``: a copy of the run as it was in front of generation 1."""

    def copied(name):
        folder = shutil.copytree(runs[name].directory, tmp_path / name)
        (folder / "checkpoints" / "000002.safetensors").unlink()
        first, *_ = (folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
        (folder / "metrics.jsonl").write_bytes(first)
        return folder

    return copied


def set_state(**values):
    def change(document, arrays):
        for name, value in values.items():
            arrays.pop(f"strategy.{name}", None)
            document["strategy"].pop(name, None)
            if isinstance(value, np.ndarray):
                arrays[f"strategy.{name}"] = value
            elif value is not None:
                document["strategy"][name] = value

    return change


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("openai_es", set_state(mean=None), "KeyError: 'mean'"),
        ("openai_es", set_state(mean=np.zeros(3, np.float32)), "its state does not fit: ValueError: the strategy's me"),
        ("openai_es", set_state(mean=np.zeros((2, 2), np.float32)), r"the state's mean has shape \(2, 2\), expected"),
        ("openai_es", set_state(generation=7), "the strategy is in generation 7, the file in 1"),
        ("openai_es", set_state(generation=np.zeros(2)), r"the state's generation has shape \(2,\), expected \(\)"),
        ("openai_es", set_state(population_size=10**12), "the strategy has 1000000000000 candidates, its config allow"),
        ("openai_es", set_state(population_size=1), "population_size must be at least 2, got 1"),
        ("openai_es", set_state(**{"optimizer.first": np.zeros(1)}), r"the optimiser's first has shape \(1,\), expect"),
        ("openai_es", set_state(**{"optimizer.steps": None}), "KeyError: 'steps'"),
        ("cma_es", set_state(covariance=np.zeros(3)), r"the state's covariance has shape \(3,\), expected \(3, 3\)"),
        ("cma_es", set_state(step_size=None), "KeyError: 'step_size'"),
        ("ga", set_state(survivors=3), r"the state's survivors has shape \(\), expected"),
        ("openai_es", lambda document, arrays: document["progress"].pop("best"), "KeyError: 'best'"),
        ("openai_es", lambda document, arrays: document["progress"].update(total_steps="many"), "its progress cannot"),
        (
            "openai_es",
            lambda document, arrays: document["progress"]["rules"].update(episode_cap=-3),
            "its episode_cap must be",
        ),
        ("openai_es", lambda document, arrays: document["progress"].update(best=[1]), "ValueError: not enough values"),
        (
            "openai_es",
            lambda document, arrays: document["progress"].update(best=[0, 1.0, 0.1, 0]),
            "its progress cannot",
        ),
        ("openai_es", lambda document, arrays: document.update(generation=0), "is of generation 0: the file was rena"),
    ],
)
def test_a_resumed_run_refuses_a_state_that_does_not_fit(name, change, sentence, walk, unfinished):
    folder = unfinished(name)
    path = folder / "checkpoints" / "000001.safetensors"
    document, arrays = read_checkpoint(path)
    change(document, arrays)
    write_checkpoint(path, document, arrays)
    history = (folder / "metrics.jsonl").read_bytes()
    with pytest.raises(CheckpointError, match=f"{path}.*{sentence}"):
        train(walk, run_dir=folder, resume=True, workers=1, progress=False)
    assert (folder / "metrics.jsonl").read_bytes() == history


def test_a_run_with_a_damaged_latest_checkpoint_resumes_from_the_one_before(walk, unfinished, runs):
    folder = unfinished("openai_es")
    latest = folder / "checkpoints" / "000001.safetensors"
    latest.write_bytes(latest.read_bytes()[:100])
    again = {"run_dir": folder, "resume": True, "workers": 1, "progress": False}
    with pytest.raises(CheckpointError) as caught:
        train(walk, **again)
    (note,) = caught.value.__notes__
    assert note.startswith(f"Generation 0 has an intact one: delete {latest} and resume")
    latest.unlink()
    assert train(walk, **again).history[-1].parameter_hash == runs["openai_es"].history[-1].parameter_hash
    folder = unfinished("cma_es")
    for path in (folder / "checkpoints").iterdir():
        path.write_bytes(b"nothing")
    with pytest.raises(CheckpointError) as caught:
        train(walk, **{**again, "run_dir": folder})
    assert not hasattr(caught.value, "__notes__")


def test_an_undamaged_copy_is_resumed(walk, unfinished, runs):
    for name, run in runs.items():
        again = train(walk, run_dir=unfinished(name), resume=True, workers=1, progress=False)
        assert again.history[-1].parameter_hash == run.history[-1].parameter_hash


# ---- config.json and metrics.jsonl


def spoil_config(folder, text):
    path = folder / "config.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def spoil_metrics(folder, text):
    path = folder / "metrics.jsonl"
    first, *others = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(text(first) + b"".join(others))
    return path


def changed(**fields):
    return lambda line: json.dumps({**json.loads(line), **fields}).encode() + b"\n"


CONFIGS = [b"", b"{", b"\xff\xfe\x00", "[" * 100_000, '{"a": 1}', "[]", "null", "3", '"text"', "9" * 5000]
LINES = {
    "no text": lambda line: b"\xff\xfe\xff\n",
    "no JSON": lambda line: line[: len(line) // 2] + b"\n",
    "no object": lambda line: b"[]\n",
    "a deep nesting": lambda line: b"[" * 100_000 + b"\n",
    "nothing": lambda line: b"\n",
    "another number": changed(generation=7),
    "a text for a number": changed(steps="many"),
    "a negative count": changed(total_steps=-5),
    "not a number": changed(fitness_mean=float("nan")),
    "a text for an evaluation": changed(evaluation="good"),
    "a half evaluation": changed(evaluation={"mean": 3.0}),
    "a list for a dict": changed(fitnesses=[1]),
    "a further field": changed(surprise=1),
    "twice": lambda line: line * 2,
}


@pytest.mark.parametrize("text", CONFIGS, ids=range(len(CONFIGS)))
def test_a_damaged_config_is_named_and_fails_without_a_traceback(text, runs, tmp_path, capsys):
    folder = shutil.copytree(runs["openai_es"].directory, tmp_path / "run")
    path = spoil_config(folder, text)
    with pytest.raises(CheckpointError, match=f"^{path} is damaged: "):
        Run.open(folder)
    for command in ("resume", "evaluate", "record"):
        assert main([command, str(folder)]) == 1
        assert capsys.readouterr().err.startswith(f"error: {path} is damaged: ")


@pytest.mark.parametrize("fault", LINES)
def test_a_damaged_history_is_named_with_its_line(fault, runs, tmp_path, capsys):
    folder = shutil.copytree(runs["openai_es"].directory, tmp_path / "run")
    path = spoil_metrics(folder, LINES[fault])
    line = 2 if fault == "twice" else 1
    with pytest.raises(CheckpointError, match=f"^{path}, line {line} is damaged: "):
        Run.open(folder)
    assert main(["evaluate", str(folder)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {path}, line {line} is damaged: ")


def test_a_last_line_that_was_cut_off_is_passed_over(runs, tmp_path):
    folder = shutil.copytree(runs["openai_es"].directory, tmp_path / "run")
    data = (folder / "metrics.jsonl").read_bytes()
    (folder / "metrics.jsonl").write_bytes(data[:-20])
    assert len(Run.open(folder).history) == data.count(b"\n") - 1


def test_what_a_run_writes_holds_no_nan_and_no_infinity(runs):
    def refuse(constant):
        raise AssertionError(constant)

    for run in runs.values():
        json.loads((run.directory / "config.json").read_text(), parse_constant=refuse)
        for line in (run.directory / "metrics.jsonl").read_text().splitlines():
            json.loads(line, parse_constant=refuse)
        for path in run.directory.rglob("*.safetensors"):
            with safetensors.safe_open(path, framework="numpy") as file:
                json.loads(file.metadata()["es_envs"], parse_constant=refuse)


# ---- names in files are data

NAMES = {
    "env_id": "marked:Walk-v0",
    "fitness": "marked:best",
    "policy": "marked:Policy",
    "policy_options": {"deep": [{"kind": "marked:Kind"}]},
    "strategy": "marked:Search",
    "strategy_options": {"kind": "marked:Kind"},
    "optimizer": "marked:Descent",
    "optimizer_options": {"kind": "marked:Kind"},
    "env_kwargs": {"marked:Kind": 1},
    "activation": "marked:relu",
    "shaping": "marked:shape",
}


@pytest.mark.parametrize("field", first_fast(NAMES))
def test_a_file_that_names_a_module_is_refused_by_all_that_would_use_it(field, runs, walk, marked, tmp_path):
    folder = shutil.copytree(runs["openai_es"].directory, tmp_path / "run")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, field: NAMES[field]}))
    for path in (*folder.glob("checkpoints/*"), folder / "best.safetensors"):
        document, arrays = read_checkpoint(path)
        document["config"][field] = NAMES[field]
        write_checkpoint(path, document, arrays)

    bare = shutil.copytree(folder, tmp_path / "bare", ignore=shutil.ignore_patterns("0*.safetensors"))
    film = tmp_path / "film.mp4"
    uses = {
        "evaluate a run": lambda: evaluate(folder, episodes=1, workers=1),
        "evaluate a file": lambda: evaluate(folder / "best.safetensors", episodes=1, workers=1),
        "record": lambda: record(folder / "best.safetensors", film),
        "rebuild": lambda: rebuild(bare, 1),
        "resume": lambda: Run.open(folder).resume(generations=9, workers=1, progress=False),
        "train again": lambda: train(walk, run_dir=folder, resume=True, generations=9, workers=1, progress=False),
    }
    for use in uses.values():
        with pytest.raises((ValueError, CheckpointError), match=field):
            use()
    assert not marked.exists()
    assert not film.exists()


IMPORTED = {  # into a module of a plugin, from elsewhere, or no function or class
    "np.show_config": "'np' in .* is the module numpy",
    "np": "'np' in .* is the module numpy",
    "pairwise": "not a function or class of an installed plugin",
    "bounded": "not a function or class of an installed plugin",
    "BulletEnv.reset": "not a function or class of an installed plugin",
    "START": "not a function or class of an installed plugin",
    "_": ", which cannot be found: module 'es_racecar.env' has no '_'",
}


@pytest.mark.parametrize("attribute", first_fast(sorted(IMPORTED, key="bounded".__ne__)))
def test_a_file_may_name_only_what_a_plugin_itself_defines(attribute, runs):
    config = runs["openai_es"].config
    values = {
        "fitness": str,
        "policy": str,
        "env_kwargs": lambda name: {"a": [name]},
        "strategy_options": lambda name: {"a": name},
    }
    for field, value in values.items():
        changed = dataclasses.replace(config, **{field: value(f"es_racecar.env:{attribute}")})
        with pytest.raises(ValueError, match=f"^RUN names {field}=.*{IMPORTED[attribute]}"):
            require_trusted(changed, trust=False, where="RUN")
    for field, name in (
        ("fitness", "es_racecar.fitness:distance_with_finish"),
        ("env_kwargs", {"a": "es_racecar:A-v0"}),
    ):
        require_trusted(dataclasses.replace(config, **{field: name}), trust=False, where="RUN")


def test_a_policy_is_a_class_of_modules_before_it_is_called(runs):
    config = dataclasses.replace(runs["openai_es"].config, policy="es_racecar.fitness:distance_with_finish")
    with pytest.raises(
        ValueError, match=r"distance_with_finish' must be a subclass of torch\.nn\.Module, got <function"
    ):
        make_policy(config, Walk.observation_space, Walk.action_space)


@pytest.mark.parametrize("name", ["es_envs.fitness:np.show_config", "os:path.join", "os:path", "es_core.run:math.inf"])
def test_no_name_walks_through_modules_that_another_has_imported(name):
    with pytest.raises(ValueError, match=f" in '{name}' is the module "):
        import_path.load(name)


@pytest.mark.parametrize(
    "name",
    [
        "config.json", "metrics.jsonl", "best.safetensors", "initial.safetensors", ".lock", "checkpoints",
        "checkpoints/000001.safetensors", "checkpoints/000003.safetensors.partial", "tensorboard", "videos",
    ],
)  # fmt: skip
def test_a_link_that_leads_out_of_a_run_folder_is_refused(name, runs, walk, tmp_path):
    folder, outside = shutil.copytree(runs["openai_es"].directory, tmp_path / "run"), tmp_path / "outside"
    link = folder / name
    if link.is_dir():
        link.rename(outside)
        (outside / "a.partial").touch()
    else:
        outside.write_text("precious")
        link.unlink(missing_ok=True)
        if name == "config.json":
            shutil.copy(runs["openai_es"].directory / name, outside)
    before = {path: path.read_bytes() for path in (outside, *outside.rglob("*")) if path.is_file()}
    link.symlink_to(outside)
    uses = [
        lambda: Run.open(folder),
        lambda: evaluate(folder, episodes=1, workers=1),
        lambda: rebuild(folder, 1),
        lambda: record(folder, folder / "videos" / "film.mp4"),
        lambda: train(walk, run_dir=folder, resume=True, generations=9, workers=1, progress=False),
    ]
    for use in uses:
        with pytest.raises(CheckpointError, match=f"{link} is a link that leads out of {folder}, to {outside}"):
            use()
    assert before == {path: path.read_bytes() for path in (outside, *outside.rglob("*")) if path.is_file()}


def test_a_link_to_a_run_folder_is_followed(runs, tmp_path):
    (tmp_path / "link").symlink_to(runs["openai_es"].directory)
    assert Run.open(tmp_path / "link").directory == runs["openai_es"].directory


def test_only_numbers_of_an_initial_checkpoint_are_used(runs, walk, tiny, marked, tmp_path):
    document, arrays = read_checkpoint(runs["openai_es"].best_path)
    document["config"] |= {name: NAMES[name] for name in ("env_id", "fitness", "strategy", "env_kwargs")}
    path = write_checkpoint(tmp_path / "initial.safetensors", document, arrays)
    train(walk, run_dir=tmp_path / "new", initial=path, **tiny)
    assert not marked.exists()


@pytest.mark.slow
def test_a_policy_to_start_from_must_be_trusted_if_it_is_a_module(runs, walk, marked, tmp_path, capsys):
    document, arrays = read_checkpoint(runs["openai_es"].best_path)
    document["config"]["policy"] = "marked:Kind"
    path = write_checkpoint(tmp_path / "initial.safetensors", document, arrays)
    refusal = f"{path} names policy='marked:Kind', which is not a function or class of an installed plugin"
    for begin in (partial(train, walk), partial(train_seeds, walk, [0, 1])):
        with pytest.raises(ValueError, match=re.escape(refusal)):
            begin(run_dir=tmp_path / "new", initial=path, workers=2, progress=False)
    assert main(["train", walk, "--initial", str(path), "--run-dir", str(tmp_path / "new"), "--workers", "1"]) == 2
    assert refusal in capsys.readouterr().err
    assert not marked.exists()
    assert not (tmp_path / "new").exists()
    assert main(["train", walk, "--initial", str(path), "--run-dir", str(tmp_path / "new"), "--trust-names"]) != 0
    assert marked.exists()  # it was imported, though it has no such class


def test_settings_of_wrappers_are_no_names(runs, marked, tmp_path):
    document, arrays = read_checkpoint(runs["openai_es"].checkpoint_path(2))
    document["config"]["preprocessing"] = {"resize": "marked:Kind"}
    with pytest.raises(CheckpointError, match="preprocessing must be a dict whose 'resize' is a whole number"):
        Checkpoint.load(write_checkpoint(tmp_path / "spoilt.safetensors", document, arrays))
    assert not marked.exists()


def test_a_file_that_the_caller_trusts_may_name_a_module(runs, marked, tmp_path):
    document, arrays = read_checkpoint(runs["openai_es"].checkpoint_path(2))
    document["config"]["fitness"] = "marked:best"
    path = write_checkpoint(tmp_path / "trusted.safetensors", document, arrays)
    with pytest.raises(RolloutError, match="module 'marked' has no 'best'"):
        evaluate(path, episodes=1, workers=1, trust=True)
    assert marked.exists()


@pytest.mark.parametrize("name", first_fast(["it's", "--quiet", "with space", 'say "so"', "$HOME", "a;b"], 2))
def test_printed_commands_work_when_pasted_into_a_shell(name, walk, tiny, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / name
    arguments = ["--generations=1", "--population-size=2", "--eval-episodes=1", "--confirm-episodes=1", "--workers=1"]
    assert main(["train", walk, f"--run-dir={folder}", "--quiet", *arguments]) == 0
    said = capsys.readouterr().err
    assert main(["train", walk, f"--run-dir={folder}", "--quiet", *arguments]) == 1
    said += capsys.readouterr().err
    for command in ("evaluate", "record", "resume"):
        assert shlex.join(["es-envs", command, str(folder)]) in said
