"""What runs and commands write, for tests that compare two of them, or spoil one."""

import hashlib
import json

import numpy as np
import safetensors
import safetensors.numpy

FAULTS = ("workers_replaced", "retried")
"""Numbers of metrics.jsonl that tell of workers that died, and of nothing else."""


def lines(run, *changing):
    """The lines of metrics.jsonl, without times and the fields named."""
    text = (run.directory / "metrics.jsonl").read_text(encoding="utf-8")
    return [{**json.loads(line), **dict.fromkeys(("seconds", *changing))} for line in text.splitlines()]


def checkpoint_files(run):
    """The bytes of each checkpoint and of the best, by name."""
    files = [run.best_path, *sorted((run.directory / "checkpoints").glob("*.safetensors"))]
    return {file.name: file.read_bytes() for file in files}


def require_equal(run, undisturbed):
    """Require the same lines, and the same bytes of every checkpoint that ``undisturbed`` has."""
    assert lines(run) == lines(undisturbed)
    assert [line["generation"] for line in lines(run)] == list(range(len(run.history)))
    assert checkpoint_files(undisturbed).items() <= checkpoint_files(run).items()
    assert not list(run.directory.rglob("*.partial"))


def files(folder):
    """All there is in a folder, by path: a file's bytes; False for anything else."""
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*") if path.name != ".lock"}


def read_checkpoint(path):
    """Description and arrays of a checkpoint."""
    with safetensors.safe_open(path, framework="numpy") as file:
        document = json.loads(file.metadata()["es_envs"])["document"]
        return document, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def write_checkpoint(path, document, arrays, text=lambda text: text):
    """Write a checkpoint whose checksums fit, whatever it says; ``text`` changes the description behind their back."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    if isinstance(document, dict) and "tensors" in document:
        document = {**document, "tensors": {name: sha256(array.tobytes()) for name, array in arrays.items()}}
    signed = {"document": document, "sha256": sha256(json.dumps(document, sort_keys=True).encode())}
    safetensors.numpy.save_file(arrays, path, {"es_envs": text(json.dumps(signed, sort_keys=True))})
    return path


def rewrite_checkpoint(path, change):
    """Call ``change(document, arrays)`` on a checkpoint, and write it with checksums that fit again."""
    document, arrays = read_checkpoint(path)
    change(document, arrays)
    return write_checkpoint(path, document, arrays)


def set_config(**fields):
    """A change of a checkpoint's settings."""
    return lambda document, arrays: document["config"].update(fields)


def nested(depth):
    """A list in a list in a list, and so on."""
    value = []
    for _ in range(depth):
        value = [value]
    return value
