"""What this machine lets us use: cores, memory, open files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from es_core import machine
from es_core.machine import memory_limit, usable_cores

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
linux = pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")
PERIOD = "cpu/slice/job/cpu.cfs_period_us"


@pytest.fixture
def control_groups(tmp_path, monkeypatch):
    """``control_groups(own, files)``: this process is in groups as /proc/self/cgroup names them, with these files."""
    read = Path.read_text

    def make(own, files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        monkeypatch.setattr(machine, "_CONTROL_GROUPS", tmp_path)
        monkeypatch.setattr(
            Path, "read_text", lambda path, **how: own if str(path) == "/proc/self/cgroup" else read(path, **how)
        )

    return make


@linux
@pytest.mark.parametrize(
    ("own", "files"),
    [
        ("0::/\n", {"cpu.max": "100000 100000"}),
        ("0::/slice/job\n", {"slice/job/cpu.max": "50000 100000"}),
        ("0::/slice/job\n", {"slice/job/cpu.max": "max 100000", "slice/cpu.max": "100000 100000"}),
        ("0::/out/of/sight\n", {"cpu.max": "100000 100000"}),
        ("3:cpu:/slice/job\n0::/\n", {"cpu/slice/job/cpu.cfs_quota_us": "100000", PERIOD: "100000"}),
        ("3:cpu,cpuacct:/job\n", {"cpu,cpuacct/job/cpu.cfs_quota_us": "9", "cpu,cpuacct/job/cpu.cfs_period_us": "10"}),
        ("3:cpuacct,cpu:/docker/1f\n", {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"}),
        ("3:cpu:/\n0::/job\n", {"unified/job/cpu.max": "100000 100000"}),
    ],
)
def test_a_quota_of_either_version_and_of_any_group_around_is_seen(control_groups, own, files):
    control_groups(own, files)
    assert usable_cores() == 1


@linux
@pytest.mark.parametrize(
    ("own", "files"),
    [
        ("0::/\n", {}),
        ("0::/job\n", {"job/cpu.max": "max 100000"}),
        ("3:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}),
        ("3:memory:/job\n", {"cpu/job/cpu.cfs_quota_us": "1", "cpu/job/cpu.cfs_period_us": "100000"}),
        ("0::/job\n", {"job/cpu.max": "nonsense"}),
    ],
)
def test_without_a_quota_all_cores_are_usable(control_groups, own, files):
    control_groups(own, files)
    assert usable_cores() == CORES


@linux
@pytest.mark.parametrize(
    ("own", "files", "limit"),
    [
        ("0::/job\n", {"job/memory.max": "1000", "memory.max": "2000"}, 1000),
        ("5:memory:/job\n", {"memory/job/memory.limit_in_bytes": "3000"}, 3000),
        ("5:memory:/job\n", {"memory/job/memory.limit_in_bytes": "9223372036854771712"}, None),
        ("0::/job\n", {"job/memory.max": "max"}, None),
    ],
)
def test_the_least_memory_limit_of_all_groups_counts(control_groups, own, files, limit):
    control_groups(own, files)
    assert memory_limit() == limit


LIMITED = """
import resource, sys
files, words = int(sys.argv[1]), sys.argv[2:]
resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
from es_core.cli import main
sys.exit(main(words))
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such limit")
@pytest.mark.parametrize(("workers", "code"), [([], 0), (["--workers", "50"], 2), (["--workers", "1"], 0)])
def test_a_small_limit_of_open_files_means_fewer_workers_or_a_sentence(tmp_path, workers, code):
    words = ["train", "CartPole-v1", "--generations", "1", "--max-steps", "50", "--strategy", "openai_es", *workers]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "64", *words, "--run-dir", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert ("50 workers need 132 more open files" in done.stderr) is (code == 2)
    assert "Traceback" not in done.stderr
    if code:
        assert "--workers " in done.stderr
        assert not (tmp_path / "run").exists()
