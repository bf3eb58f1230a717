"""`es-envs new --robot`: from a robot's file to a plugin that works, and what is inferred on the way."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pybullet_data = pytest.importorskip("pybullet_data")
pytest.importorskip("pybullet")

from es_core.cli import main
from es_envs.bullet.models import read_model
from es_envs.bullet.robots.copying import MOST_POINTS, copy_model, hulls_of
from es_envs.bullet.robots.inference import infer, read_for_proposal
from es_envs.bullet.robots.tree import infer_base, words
from es_envs.scaffold.robot_plugin import literal, new_robot, one_line

DATA = Path(pybullet_data.getDataPath())
LINK = """<link name="{}"><inertial><mass value="1"/><inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0"
iyz="0"/></inertial><collision><origin xyz="0 0 {z}"/><geometry>{shape}</geometry></collision></link>"""
BOX = '<box size="0.1 0.1 0.2"/>'
JOINT = """<joint name="{}" type="{kind}"><parent link="{}"/><child link="{}"/><origin xyz="{}"/><axis xyz="0 1 0"/>
<limit lower="{low}" upper="{high}" effort="{effort}" velocity="2"/>{more}</joint>"""


def link(name, z=0.1, shape=BOX):
    return LINK.format(name, z=z, shape=shape)


def joint(name, parent, child, place="0 0 0.25", low=-1, high=1, effort=20, more="", kind="revolute"):
    return JOINT.format(name, parent, child, place, low=low, high=high, effort=effort, more=more, kind=kind)


def robot(folder, *parts, name="arm", file="robot.urdf"):
    path = folder / file
    path.write_text(f'<robot name="{name}">{"".join(parts)}</robot>', encoding="utf-8")
    return path


@pytest.fixture
def arm(tmp_path):
    links = [link("base"), link("upper"), link("wrist"), link("tool0"), link("finger")]
    joints = [
        joint("shoulder", "base", "upper"),
        joint("elbow", "upper", "wrist", low=0.5, high=1.5, effort=0),
        joint("flange", "wrist", "tool0", kind="fixed"),
        joint("gripper_finger", "tool0", "finger", "0 0.2 0.25"),
    ]
    return robot(tmp_path, *links, *joints)


def quadruped(folder, name="dog.urdf"):
    parts = [link("trunk", 0, '<box size="0.5 0.3 0.1"/>')]
    for leg, x, y in (("fl", 0.2, 0.15), ("fr", 0.2, -0.15), ("hl", -0.2, 0.15), ("hr", -0.2, -0.15)):
        shank = link(f"{leg}_shank", -0.1, '<box size="0.06 0.06 0.2"/>')
        parts += [link(f"{leg}_thigh", -0.1, '<box size="0.05 0.05 0.18"/>'), shank]
        parts.append(joint(f"{leg}_hip", "trunk", f"{leg}_thigh", f"{x} {y} -0.05"))
        parts.append(joint(f"{leg}_knee", f"{leg}_thigh", f"{leg}_shank", "0 0 -0.2"))
    return robot(folder, *parts, name="dog", file=name)


def proposal_of(file, folder, **choices):
    model = read_for_proposal(file, {})
    base = choices.get("base") or infer_base(model)[0]
    copy, _ = copy_model(model, folder / "copy", base=base, visuals=False)
    return infer(model, copy, **choices)


def test_words_of_names_are_found_in_every_style():
    assert words("LHipPitch_1") == "l hip pitch 1"
    assert words("FL_hip_joint") == "fl hip joint"
    assert words("leg-left") == "leg left"


def test_an_arm_is_fastened_and_reaches_with_its_tool_but_without_its_gripper(arm, tmp_path):
    found = proposal_of(arm, tmp_path)
    assert (found.kind, found.base, found.task, found.control, found.tip) == (
        "arm",
        "fixed",
        "reach",
        "velocity",
        "tool0",
    )
    assert list(found.motors) == ["shoulder", "elbow"]
    assert found.motors["shoulder"] == 20.0
    assert found.joint_reasons["motors", "shoulder"] == "the file's effort limit"
    assert "weight" in found.joint_reasons["motors", "elbow"]
    assert found.start_pose == {"elbow": 1.0}
    assert set(found.reasons) >= {"base", "task", "tip", "motors", "start_pose", "control", "speed", "start_height"}


def test_four_legs_stand_on_their_feet_and_are_driven_by_targets(tmp_path):
    found = proposal_of(quadruped(tmp_path), tmp_path)
    assert (found.kind, found.base, found.task, found.control) == ("legs", "free", "walk", "position")
    assert len(found.motors) == 8
    assert found.stands == 5.0
    assert sorted(found.contacts) == ["fl_shank", "fr_shank", "hl_shank", "hr_shank"]
    assert found.start_height == pytest.approx(0.451, abs=0.003)


def test_the_pose_is_that_of_an_srdf_file_within_the_limits(tmp_path):
    file = quadruped(tmp_path)
    states = "".join(
        f'<group_state name="{name}" group="all"><joint name="fl_hip" value="{value}"/>'
        '<joint name="root" value="0 0 1"/><joint name="fl_knee" value="-3"/></group_state>'
        for name, value in (("home", 0.3), ("standing", 0.1))
    )
    (tmp_path / "dog.srdf").write_text(f'<robot name="dog">{states}</robot>', encoding="utf-8")
    found = proposal_of(file, tmp_path)
    assert found.start_pose["fl_hip"] == 0.1
    assert found.joint_reasons["start_pose", "fl_hip"] == "standing in dog.srdf"
    assert found.start_pose["fl_knee"] == -1.0


def test_a_joint_that_mimics_another_follows_it_and_is_no_motor(tmp_path):
    links = [link("base"), link("a"), link("b")]
    more = '<mimic joint="one" multiplier="-2" offset="0.1"/>'
    file = robot(tmp_path, *links, joint("one", "base", "a"), joint("two", "a", "b", more=more))
    found = proposal_of(file, tmp_path, task="track")
    assert list(found.motors) == ["one"]
    assert found.mimics == {"two": ("one", -2.0, 0.1)}


def test_wheels_drive_and_propellers_are_refused(tmp_path, capsys):
    parts = [link("body", 0.1)]
    for side, y in (("left", 0.2), ("right", -0.2)):
        wheel = LINK.format(f"{side}_wheel", z=0, shape='<sphere radius="0.1"/>')
        parts += [wheel, joint(f"{side}_wheel", "body", f"{side}_wheel", f"0 {y} 0.1", kind="continuous")]
    found = proposal_of(robot(tmp_path, *parts, name="car"), tmp_path)
    assert (found.kind, found.base, found.control) == ("wheels", "free", "velocity")
    assert list(found.motors) == ["left_wheel", "right_wheel"]
    flying = robot(tmp_path, link("body"), link("rotor"), joint("prop", "body", "rotor", kind="continuous"), name="fly")
    assert main(["new", "my-fly", "--robot", str(flying)]) == 1
    assert "Bullet does not simulate propellers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "kind", "base"),
    [
        ("a1/a1.urdf", "legs", "free"),
        ("laikago/laikago.urdf", "legs", "free"),
        ("mini_cheetah/mini_cheetah.urdf", "legs", "free"),
        ("husky/husky.urdf", "wheels", "free"),
        ("r2d2.urdf", "wheels", "free"),
        ("kuka_iiwa/model.urdf", "arm", "fixed"),
        ("franka_panda/panda.urdf", "arm", "fixed"),
        ("xarm/xarm6_robot.urdf", "arm", "fixed"),
    ],
)
def test_robots_that_come_with_bullet_are_told_apart(file, kind, base):
    assert infer_base(read_model(DATA / file, look_into_meshes=False))[:2] == (base, kind)


@pytest.mark.slow
@pytest.mark.parametrize(
    "file", ["a1/a1.urdf", "laikago/laikago.urdf", "mini_cheetah/mini_cheetah.urdf", "mjcf/ant.xml"]
)
def test_quadrupeds_that_come_with_bullet_stand_for_five_seconds(file, tmp_path):
    assert proposal_of(DATA / file, tmp_path).stands == 5.0


def test_hulls_have_few_points_and_lie_within_the_mesh():
    random = np.random.default_rng(0)
    mesh = DATA / "kuka_iiwa" / "meshes" / "link_3.stl"
    ((points, triangles),) = hulls_of(mesh)
    assert 4 <= len(points) <= MOST_POINTS
    assert triangles.max() < len(points)
    directions = random.normal(size=(20, 3))
    whole = np.array([[-0.068, -0.068, -0.01], [0.068, 0.1146, 0.2833]])
    assert (points.min(axis=0) >= whole[0] - 1e-3).all()
    assert (points.max(axis=0) <= whole[1] + 1e-3).all()
    assert np.ptp(points @ directions.T, axis=0).min() > 0.1


def test_a_root_without_mass_gets_a_tiny_one_if_it_carries_links(tmp_path):
    file = quadruped(tmp_path)
    text = file.read_text(encoding="utf-8")
    more = f'<link name="frame"/>{joint("mount", "frame", "trunk", "0 0 0", kind="fixed")}</robot>'
    file.write_text(text.replace("</robot>", more), encoding="utf-8")
    copy, remark = copy_model(read_model(file), tmp_path / "copy", base="free")
    assert "'frame' has no mass" in remark
    assert 'mass value="0.000001"' in copy.read_text(encoding="utf-8")
    assert proposal_of(file, tmp_path / "other").stands == 5.0


def new(name, file, *options):
    return main(["new", name, "--robot", str(file), *options])


def installed(folder, package):
    """Make a plugin's folder one that Python takes for an installed distribution."""
    info = folder / f"{package}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[es_envs]\n{package} = {package}\n", encoding="utf-8")


@pytest.fixture
def here(tmp_path, monkeypatch):
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_a_new_robots_plugin_is_complete_formatted_and_says_where_each_constant_comes_from(arm, here, capsys):
    (arm.parent / "LICENSE").write_text("yours", encoding="utf-8")
    assert new("my-arm", arm) == 0
    printed = capsys.readouterr()
    assert printed.out == "my-arm\n"
    assert "reach: it is fastened, and has a tip" in printed.err
    assert "es-envs train MyArm-v0" in printed.err
    folder = here / "my-arm"
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == {
        ".github/workflows/test.yml",
        ".gitignore",
        "README.md",
        "pyproject.toml",
        "my_arm/__init__.py",
        "my_arm/env.py",
        "my_arm/fitness.py",
        "my_arm/robot/LICENSE",
        "my_arm/robot/card.png",
        "my_arm/robot/robot.urdf",
        "tests/test_my_arm.py",
    }
    source = (folder / "my_arm" / "env.py").read_text(encoding="utf-8")
    lines = source.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("    ") and " = " in line and line[4].isalpha():
            assert lines[number - 1].startswith("    # "), line
    assert '"shoulder": 20.0,  # the file\'s effort limit' in source
    pytest.importorskip("ruff")
    for check in (["format", "--check"], ["check", "--extend-select", "B,I,PT,SIM,UP", "--ignore", "RUF012"]):
        command = [sys.executable, "-m", "ruff", *check, "--isolated", "--no-cache"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["arm", "legs"])
def test_a_new_robots_own_tests_pass(kind, arm, here):
    file = arm if kind == "arm" else quadruped(here.parent)
    plugin = new_robot("its-robot", file)
    installed(plugin.folder, plugin.package)
    path = os.pathsep.join(filter(None, [str(plugin.folder.absolute()), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=plugin.folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


HOSTILE = "x&quot;&quot;&quot;; import os; {y} ${env_id} $package &#10;import os \\ &apos;"


def test_hostile_names_never_become_code(here, capsys):
    links = [link(f"{name} {HOSTILE}") for name in "abc"]
    joints = [joint(f"{j} {HOSTILE}", f"{a} {HOSTILE}", f"{b} {HOSTILE}") for j, a, b in ("jab", "kbc")]
    file = robot(here.parent, *links, *joints, name=HOSTILE)
    assert new("my-robot", file) == 0
    folder = here / "my-robot" / "my_robot"
    tree = ast.parse((folder / "env.py").read_text(encoding="utf-8"))
    assert [type(node).__name__ for node in tree.body] == ["Expr", "ImportFrom", "ImportFrom", "ClassDef"]
    (motors,) = (
        node.value for node in tree.body[-1].body if isinstance(node, ast.Assign) and node.targets[0].id == "motors"
    )
    names = {name.partition(" ")[0] for name in ast.literal_eval(motors)}
    assert names == {"j", "k"}
    assert literal('a"b\n') == "'a\"b\\n'"
    assert one_line("a\nb\x1b[0m") == "a b\\x1b[0m"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tip", "nix"], "there is no such link: this robot has base, upper"),
        (["--tip", "base"], "no joint moves this link"),
        (["--joints", "shoulder,nix"], "no such joint that can be driven: this robot has shoulder, elbow"),
        (["--task", "walk", "--base", "fixed"], "a robot whose base is fixed cannot walk"),
        (["--package", "arm"], "expected NAME=DIR"),
    ],
)
def test_a_choice_that_the_robot_has_not_is_a_sentence(options, message, arm, here, capsys):
    assert new("my-arm", arm, *options) == 2
    assert message in capsys.readouterr().err
    assert not list(here.iterdir())


def test_a_robot_is_of_no_other_kind(arm, here, capsys):
    with pytest.raises(SystemExit) as ended:
        new("my-arm", arm, "--gymnasium")
    assert ended.value.code == 2
    assert "not allowed with argument" in capsys.readouterr().err


def test_choices_about_a_robot_need_its_file(here, capsys):
    assert main(["new", "my-arm", "--task", "walk"]) == 2
    assert "--robot FILE" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["text.urdf", "folder.urdf", "a.stl", "robot.zip", "still.urdf"])
def test_what_is_no_robot_is_a_sentence_and_leaves_nothing(name, here, capsys):
    path = here.parent / name
    if name == "folder.urdf":
        path.mkdir()
    elif name == "robot.zip":
        path.write_bytes(b"PK\x03\x04")
    else:
        path.write_text(f'<robot name="r">{link("a")}</robot>' if name == "still.urdf" else "hello", encoding="utf-8")
    assert new("my-robot", path) == 2
    err = capsys.readouterr().err
    assert name in err
    assert "Traceback" not in err
    assert not list(here.iterdir())


def test_meshes_with_strange_names_are_copied_under_plain_ones(here):
    folder = here.parent / "a 'b'"
    folder.mkdir()
    mesh = (DATA / "kuka_iiwa" / "meshes" / "link_3.stl").read_bytes()
    for name in ("über (1).stl", "CON.stl"):
        (folder / name).write_bytes(mesh)
    shapes = [f'<mesh filename="{name}"/>' for name in ("über (1).stl", "CON.stl")]
    links = [link("a", shape=shapes[0]), link("b", shape=shapes[1])]
    visual = f"<visual><geometry>{shapes[0]}</geometry></visual></link>"
    file = robot(folder, links[0].replace("</link>", visual), links[1], joint("j", "a", "b"), file="it's.urdf")
    plugin = new_robot("my-robot", file)
    copied = sorted(path.name for path in (plugin.folder / "my_robot" / "robot" / "meshes").iterdir())
    assert copied == ["CON-hull.obj", "ber-1-hull.obj", "ber-1.stl"]


def test_the_card_of_a_robot_says_what_new_would_take_from_it_and_draws_it(arm, tmp_path, capsys):
    picture, film = tmp_path / "card.png", tmp_path / "idle.mp4"
    assert main(["robot", str(arm), "--picture", str(picture), "--film", str(film)]) == 0
    out = capsys.readouterr().out
    assert "reach: it is fastened, and has a tip" in out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert film.stat().st_size > 1000
    assert main(["robot", str(arm), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["proposal"]["tip"] == "tool0"
    assert main(["robot", str(arm), "--picture", "card.jpg"]) == 2
    assert "ends with .png" in capsys.readouterr().err


def test_the_card_works_without_pybullet(arm, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pybullet", None)  # as if it could not be found
    assert main(["robot", str(arm)]) == 0
    assert "PyBullet is not installed" in capsys.readouterr().out
