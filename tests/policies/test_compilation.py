"""Kernels are compiled once, and kept where the next process finds them."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from es_core import TrainConfig
from es_core.policies import compilation
from es_core.policies.compilation import cache_folder

SENTENCE = "compiling the policy for this processor: once, it takes some seconds"
PREPARE = """
from es_core import TrainConfig
from es_core.policies.compilation import compile_kernels, is_compiled
config = TrainConfig(env_id="CartPoleBullet-v0"{more})
if not is_compiled(config):
    compile_kernels(config, print)
"""

TRANSPOSE = """
import numpy as np
from es_core.policies.compilation import Kernel
out = np.zeros((2, 2), np.float32)
Kernel("transpose")(np.array([[0, 1], [2, 3]], np.float32), out)
print(out.tolist())
"""


@pytest.fixture
def places(monkeypatch, tmp_path):
    """Nowhere to write; a test names the places that there are."""
    nowhere = tmp_path / "a file"
    nowhere.touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(nowhere))
    monkeypatch.setattr(compilation, "_SOURCE", nowhere / "kernels.py")
    yield monkeypatch
    forget()


def forget():
    for remembered in (compilation.bases, compilation.lasting_folder, compilation._passing_folder):
        remembered.cache_clear()


def folder():
    """Where a new process would keep kernels."""
    forget()
    return cache_folder()


def test_kernels_are_stored_next_to_their_source_if_it_is_writable(places, tmp_path):
    places.setattr(compilation, "_SOURCE", tmp_path / "kernels.py")
    assert folder().parent == tmp_path / "__pycache__"


def test_otherwise_kernels_are_stored_in_the_users_cache(places, tmp_path):
    places.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folder().parent == tmp_path / "es-envs"


def test_otherwise_kernels_are_stored_in_a_folder_shared_by_processes(places):
    kept = folder()
    assert kept.is_dir()
    assert os.environ["NUMBA_CACHE_DIR"] == str(kept.parent)
    assert folder() == kept


@pytest.mark.skipif(os.name == "nt", reason="chmod does not keep a user from writing")
@pytest.mark.skipif(getattr(os, "geteuid", int)() == 0, reason="root may write anywhere")
def test_a_command_that_must_compile_every_time_names_the_remedy(python, tmp_path):
    tmp_path.chmod(0o500)
    words = ["-m", "es_core", "train", "CartPole-v1", "--max-steps", "20", "--run-dir", str(tmp_path.parent / "run")]
    done = python(arguments=words, environment={"NUMBA_CACHE_DIR": str(tmp_path)})
    assert done.code == 0
    assert "at every command" in done.err
    assert f"(tried: {tmp_path})" in done.err
    assert "NUMBA_CACHE_DIR" in done.err


def test_every_kind_of_processor_has_kernels_of_its_own(places, tmp_path):
    places.setattr(compilation, "_SOURCE", tmp_path / "kernels.py")
    here = folder()
    places.setenv("NUMBA_CPU_NAME", "generic")
    assert folder() != here
    assert folder().parent == here.parent


@pytest.mark.long
def test_a_file_of_machine_code_that_is_damaged_is_compiled_again(python, tmp_path):
    assert python(TRANSPOSE, environment={"NUMBA_CACHE_DIR": str(tmp_path)}).out == "[[0.0, 2.0], [1.0, 3.0]]\n"
    (file,) = tmp_path.rglob("transpose-*.o")
    code = file.read_bytes()
    file.write_bytes(b"no machine code")
    assert python(TRANSPOSE, environment={"NUMBA_CACHE_DIR": str(tmp_path)}).out == "[[0.0, 2.0], [1.0, 3.0]]\n"
    assert len(file.read_bytes()) == len(code)


def given_away(path):
    if os.getuid():
        pytest.skip("needs root")
    os.chown(path, 12345, 12345)


def writable_by_all(path):
    path.chmod(0o777)


def link_elsewhere(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.skipif(os.name == "nt", reason="has other permissions")
@pytest.mark.parametrize("make", [given_away, writable_by_all, link_elsewhere])
def test_machine_code_that_somebody_else_could_change_is_not_loaded(make, places, tmp_path):
    places.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    kept = folder()
    file = kept / "kernel.o"
    compilation._write(file, b"machine code")
    assert compilation._read(file) == b"machine code"
    make(file)
    sentence = "(is a link|belongs to user \\d+, with mode .*): somebody else .*NUMBA_CACHE_DIR"
    with pytest.warns(RuntimeWarning, match=f"{file} {sentence}"):
        assert compilation._read(file) is None
    compilation._write(file, b"new code")
    assert compilation._read(file) == b"new code"
    make(kept)
    with pytest.warns(RuntimeWarning, match=f"{kept} {sentence}"):
        private = folder()
    assert private != kept
    assert folder() == private  # of all processes that this one starts
    compilation._remove_own(private.parent, os.getpid())


@pytest.mark.skipif(os.name == "nt", reason="needs limits of POSIX")
def test_code_for_which_there_is_no_room_leaves_no_file(places, tmp_path):
    places.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    import resource

    kept = folder()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
    try:
        compilation._write(kept / "kernel.o", b"x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, before)
    assert list(kept.iterdir()) == []


@pytest.mark.parametrize(
    "matrix",
    [np.zeros((2, 3)), np.zeros(6, np.float32), np.zeros((3, 2), np.float32).T],
    ids=["dtype", "shape", "order"],
)
def test_a_kernel_refuses_arrays_that_it_would_read_wrongly(matrix):
    with pytest.raises(TypeError, match="C-contiguous float32 arrays of 2 dimensions"):
        compilation.kernel("transpose")(matrix, np.zeros((3, 2), np.float32))


def training(tmp_path, **variables):
    """A short training where numba cannot be imported, by any process."""
    (tmp_path / "numba.py").write_text("raise ImportError('its compiler is broken')", encoding="utf-8")
    words = ["train", "CartPoleBullet-v0", "--generations=1", "--population-size=4", "--eval-every=0", "--workers=1"]
    return subprocess.run(
        [sys.executable, "-m", "es_core", *words, "--run-dir", str(tmp_path / "run")],
        env=os.environ | {"PYTHONPATH": str(tmp_path)} | variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_nobody_loads_numba_once_kernels_are_compiled(tmp_path):
    compilation.load_kernels(TrainConfig.for_env("CartPoleBullet-v0"))
    done = training(tmp_path)
    assert done.returncode == 0, done.stderr


def test_without_numba_a_sentence_says_what_to_do(tmp_path):
    done = training(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "nothing is compiled"))
    assert done.returncode == 2
    sentence = r"compiled by numba, .* \(its compiler is broken\): `pip install numba`, or .* engine='torch'"
    assert re.search(sentence, done.stderr), done.stderr
    assert "Traceback" not in done.stderr


def preparing(tmp_path, more=""):
    """A process that compiles, in a cache of the test's own."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    words = [sys.executable, "-c", PREPARE.format(more=more)]
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(process):
    """What it said."""
    with process:
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out.strip()


@pytest.mark.long
def test_a_policy_is_compiled_once_and_two_at_once_do_no_harm(tmp_path):
    first, second = preparing(tmp_path), preparing(tmp_path)
    assert [finished(first), finished(second)] == [SENTENCE, SENTENCE]
    made = {file: file.stat().st_mtime_ns for file in Path(tmp_path).rglob("*.o")}
    assert made
    assert finished(preparing(tmp_path)) == ""
    assert finished(preparing(tmp_path, ', hidden_sizes=(7, 8), policy="lstm", seed=3')) == ""
    assert finished(preparing(tmp_path, ', policy="mlp", sample_actions=True')) == SENTENCE
    assert {file: made_at for file, made_at in made.items() if file.stat().st_mtime_ns != made_at} == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        pytest.param(
            ', policy="cnn_small", virtual_batch_normalization=True, action_noise=0.1', marks=pytest.mark.long
        ),
        pytest.param(', policy="linear", action_bins=((-1, 1),), sample_actions=True', marks=pytest.mark.long),
        ', engine="torch"',
    ],
)
def test_every_kind_of_policy_can_be_compiled_beforehand(tmp_path, more):
    assert finished(preparing(tmp_path, more)) == SENTENCE
