"""What is installed, and whether it works: the doctor, and completion in a shell."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from es_core.cli.examination import examine

BIN = Path(sys.executable).parent


@pytest.mark.long
def test_the_doctor_finds_nothing_broken_where_the_tests_run():
    findings = {finding.name: finding for finding in examine()}
    assert [finding for finding in findings.values() if finding.status == "broken"] == []
    assert {"Python", "es-envs", "cores", "run folders", "numpy", "ffmpeg", "torch", "extras"} <= set(findings)
    assert "tune" in findings["extras"].found.split(", ")
    assert findings["plugin racecar"].found.endswith(": RaceCar-v0, RaceTrack-v0")
    assert findings["workers of racecar"].status == ("ok" if sys.platform == "linux" else "missing")
    assert "BLAS: " in findings["numpy"].found
    assert all(finding.advice for finding in findings.values() if finding.status == "missing")


@pytest.mark.long
def test_a_broken_installation_is_reported_with_cause_and_remedy(tmp_path, python):
    (tmp_path / "torch.py").write_text("raise ImportError('compiled for another processor')")
    (tmp_path / "imageio_ffmpeg.py").write_text("import os; os.abort()")
    (tmp_path / "es_bad.py").write_text("raise OSError('no licence')")
    info = tmp_path / "es_bad-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: es-bad\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[es_envs]\nbad = es_bad\n")
    (tmp_path / "es_busy.py").write_text(
        "import es_envs\n@es_envs.hookimpl\ndef register_envs():\n"
        "    return [es_envs.EnvDefinition(id='Busy-v0', entry_point='busy:Env', max_episode_steps=5)]\n"
    )
    (tmp_path / "busy.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    )
    info = tmp_path / "es_busy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: es-busy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[es_envs]\nbusy = es_busy\n")
    for name, number in (("pygame", "2.6.1"), ("pygame-ce", "2.5.5")):
        info = tmp_path / f"{name.replace('-', '_')}-{number}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {number}\n")
        (info / "top_level.txt").write_text("pygame\n")
    # es-envs[mujoco] is gymnasium[mujoco], and so what that requires.
    info = tmp_path / "gymnasium-1.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.4\nName: gymnasium\nVersion: 1.1\nProvides-Extra: mujoco\n"
        "Requires-Dist: no-such-simulator>=2; extra == 'mujoco'\nRequires-Dist: numpy>=99; extra == 'mujoco'\n"
    )
    done = python(arguments=["-m", "es_core", "doctor", "--json"], path=[tmp_path])
    assert done.code == 1
    found = {f["name"]: f for f in json.loads(done.out)}
    assert "atari" in found["extras"]["found"].split(", ")
    assert "mujoco (without no-such-simulator>=2, numpy>=99)" in found["other extras"]["found"]
    assert re.search(r"pip install 'es-envs\[.*mujoco.*\]'", found["other extras"]["advice"])
    why = "importing busy starts a thread" if sys.platform == "linux" else "workers are forked on Linux only"
    assert found["workers of busy"]["found"] == f"are processes of their own, not forked: {why}"
    broken = {name: f for name, f in found.items() if f["status"] == "broken"}
    assert set(broken) == {"torch", "ffmpeg", "plugin bad", "pygame"}
    assert broken["torch"]["found"].endswith(": ImportError: compiled for another processor")
    assert broken["ffmpeg"]["found"] == "the process crashed (exit code -6)"
    assert broken["plugin bad"]["found"] == "es-bad 1.0: OSError: no licence"
    assert broken["pygame"]["found"] == "pygame 2.6.1 and pygame-ce 2.5.5 overwrite each other's files"
    assert [f["name"] for f in broken.values() if "install" not in f["advice"]] == []


@pytest.mark.skipif(os.name == "nt", reason="the shell is bash")
def test_bash_completes_commands_ids_and_options(tmp_path):
    lines = [
        f"es-envs {words}" for words in ("tr", "train RaceC", "watch RaceC", "evaluate RaceCar-v0 --pre", "report r")
    ]
    script = f"""
        export PATH={shlex.quote(str(BIN))}:$PATH
        eval "$(register-python-argcomplete es-envs)"
        for line in {shlex.join(lines)}; do
            COMP_LINE="$line"; COMP_POINT=${{#line}}; COMP_TYPE=9; COMPREPLY=()
            _python_argcomplete es-envs
            echo ${{COMPREPLY[*]}}
        done
    """
    (tmp_path / "runs").mkdir()
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines() == ["train", "RaceCar-v0", "RaceCar-v0", "--pretrained", "runs/"]
