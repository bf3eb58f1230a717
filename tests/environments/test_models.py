"""Models of robots: what is read of them, and what is found wrong with them, without Bullet."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pybullet
import pybullet_data
import pytest

from es_core.cli import main
from es_envs.bullet.models import KINDS, read_model

LINK = '<link name="{}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>'


def kinds(folder, text, name="robot.urdf"):
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return [finding.kind for finding in read_model(file).findings]


def test_two_roots_are_an_error_since_they_end_the_process(tmp_path):
    assert "several-roots" in kinds(tmp_path, f'<robot name="r">{LINK.format("a")}{LINK.format("b")}</robot>')


def test_a_comment_in_a_tag_is_removed(tmp_path):
    assert "comment-in-tag" in kinds(tmp_path, f'<robot <!-- it --> name="r">{LINK.format("a")}</robot>')


def test_entities_are_refused(tmp_path):
    assert kinds(tmp_path, '<!DOCTYPE r [<!ENTITY a "b">]><robot name="r">&a;</robot>') == ["entities"]


def test_a_joint_of_mujoco_without_type_is_a_limited_hinge(tmp_path):
    file = tmp_path / "robot.xml"
    file.write_text(
        '<mujoco><worldbody><body name="a"><joint name="j" range="0 180"/></body></worldbody></mujoco>',
        encoding="utf-8",
    )
    (joint,) = read_model(file).joints
    assert (joint.kind, joint.lower, round(joint.upper, 3)) == ("revolute", 0.0, 3.142)


JOINT = """<joint name="j" type="revolute"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="1" effort="{}" velocity="{}"/></joint>"""
DOCS = Path(__file__).parents[2] / "docs"


def arm(effort=5, velocity=2, *, joint=JOINT, more=""):
    links = LINK.format("a") + LINK.format("b")
    return f'<robot name="arm">\n{links}\n{joint.format(effort, velocity)}\n{more}</robot>'


@pytest.mark.parametrize(
    ("text", "kind", "line"),
    [
        (arm(effort=0), "no-effort", 4),
        (arm(velocity=1e9), "absurd-velocity", 4),
        (arm().replace('type="revolute"', 'type="continuous"'), "continuous", 3),
        (arm().replace("</joint>", '<mimic joint="other"/></joint>'), "mimic", 4),
        (arm().replace('ixx="1"', 'ixx="9"', 1), "impossible-inertia", 2),
        (arm().replace('"1"', '"1e-9"'), "tiny-inertia", 2),
        (arm().replace('<mass value="1"/>', '<mass value="0"/>', 1), "massless-root", 2),
        (arm().replace(' name="arm"', ""), "nameless-robot", 1),
        (arm(joint=JOINT.replace('"b"', '"c"')), "unknown-link", 3),
        (arm(joint=JOINT + JOINT.format(1, 1)), "same-name", 4),
        (LINK.format("a"), "unreadable", 1),
        (f'<robot name="r">{LINK.format("a")}</robot>', "no-joints", 1),
        ('<robot name="r"></robot>', "no-links", 1),
        ("wheel", "not-xml", 1),
        (arm(more="<gazebo:plugin/>"), "namespaces", 5),
        ("# a comment\n<?xml version='1.0'?>" + arm(), "text-before-declaration", 1),
    ],
)
def test_what_loads_wrongly_or_not_at_all_is_a_finding_with_its_line(tmp_path, text, kind, line):
    file = tmp_path / "robot.urdf"
    file.write_text(text, encoding="utf-8")
    found = {each.kind: each for each in read_model(file).findings}
    assert kind in found
    assert found[kind].line == pytest.approx(line, abs=1)
    assert found[kind].severity == KINDS[kind].severity


def test_a_visual_of_a_shape_that_bullet_lacks_is_left_out(tmp_path):
    file = tmp_path / "robot.urdf"
    visual = "<visual><geometry><torus/></geometry></visual><visual><geometry><sphere/></geometry></visual>"
    file.write_text(arm().replace("</link>", f"{visual}</link>", 1), encoding="utf-8")
    model = read_model(file)
    assert [finding.kind for finding in model.findings] == ["left-out-visual"]
    assert ("torus" in model.text, "sphere" in model.text) == (False, True)


def test_a_visual_mesh_of_a_foreign_format_is_converted_where_trimesh_is_installed(tmp_path, monkeypatch):
    trimesh = pytest.importorskip("trimesh")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    trimesh.creation.box((1, 2, 3)).export(tmp_path / "box.glb")
    (tmp_path / "broken.glb").write_bytes(b"glTF and no more")
    file = tmp_path / "robot.urdf"
    shapes = "".join(
        f'<{use}><geometry><mesh filename="{name}.glb"/></geometry></{use}>'
        for use, name in (("visual", "box"), ("visual", "broken"))
    )
    file.write_text(arm().replace("</link>", f"{shapes}</link>", 1), encoding="utf-8")
    model = read_model(file)
    assert [finding.kind for finding in model.findings] == ["converted-visual", "left-out-visual"]
    (copy,) = (tmp_path / "cache/es-envs/meshes").iterdir()
    assert str(copy) in model.text
    corners = [line.split()[1:] for line in copy.read_text().splitlines() if line.startswith("v ")]
    assert {tuple(map(abs, map(float, corner))) for corner in corners} == {(0.5, 1, 1.5)}
    client = pybullet.connect(pybullet.DIRECT)
    with model.file_for_bullet() as loaded:
        body = pybullet.loadURDF(str(loaded), physicsClientId=client)
    assert [shape[4].decode() for shape in pybullet.getVisualShapeData(body, physicsClientId=client)] == [str(copy)]
    pybullet.disconnect(client)
    # A collision mesh decides what the robot can do: it is not converted behind one's back.
    file.write_text(arm().replace("</link>", shapes.replace("visual", "collision") + "</link>", 1), encoding="utf-8")
    assert [finding.kind for finding in read_model(file).findings] == ["collision-mesh", "collision-mesh"]


@pytest.fixture
def described(tmp_path, monkeypatch):
    """A repository in the cache of robot_descriptions, as git clone would leave it; returns its model."""
    pytest.importorskip("robot_descriptions")
    commit, folder = "mine", tmp_path / "example-robot-data-mine/example-robot-data"
    monkeypatch.setenv("ROBOT_DESCRIPTIONS_CACHE", str(tmp_path))
    monkeypatch.setenv("ROBOT_DESCRIPTION_COMMIT", commit)
    file = folder / "robots/panda_description/urdf/panda.urdf"
    file.parent.mkdir(parents=True)
    file.write_text(arm(), encoding="utf-8")
    for words in (["init"], ["add", "."], ["commit", "--message", "a robot"], ["tag", commit]):
        named = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
        subprocess.run(["git", "-C", str(folder), *named, *words], check=True, capture_output=True)
    yield file
    sys.modules.pop("robot_descriptions.panda_description", None)


def test_a_robot_of_the_package_robot_descriptions_is_read_by_its_name(described, capsys, tmp_path, monkeypatch):
    assert read_model("panda_description").path == described
    assert main(["robot", "panda_description", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["path"] == str(described)
    monkeypatch.chdir(tmp_path)
    assert main(["new", "my-arm", "--robot", "panda_description", "--task", "track"]) == 0
    assert (tmp_path / "my-arm/my_arm/robot/robot.urdf").is_file()


def test_a_robot_that_the_package_lacks_or_cannot_fetch_is_a_sentence(tmp_path, monkeypatch):
    pytest.importorskip("robot_descriptions")
    with pytest.raises(FileNotFoundError, match="has no such robot; did you mean panda_description"):
        read_model("pandaa_description")
    monkeypatch.setenv("ROBOT_DESCRIPTIONS_CACHE", str(tmp_path / "file"))
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(FileNotFoundError, match="robot_descriptions could not fetch 'ur10e_description': "):
        read_model("ur10e_description")
    monkeypatch.setattr("es_envs.bullet.models.descriptions.find_spec", lambda _: None)
    with pytest.raises(FileNotFoundError, match=r"pip install 'es-envs\[robots\]'"):
        read_model("panda_description")


def test_a_limit_of_a_joint_that_is_not_given_is_zero(tmp_path):
    file = tmp_path / "robot.urdf"
    for bounds, limits in (('lower="-1"', (-1.0, 0.0)), ('upper="1"', (0.0, 1.0))):
        file.write_text(arm(joint=JOINT.replace('lower="-1" upper="1"', bounds)), encoding="utf-8")
        assert [(joint.lower, joint.upper) for joint in read_model(file).joints] == [limits]


@pytest.mark.parametrize(
    ("compiler", "limit", "upper", "is_rewritten"),
    [
        ("", 'range="0 90"', 1.571, True),
        ('<compiler angle="degree"/>', 'range="0 90"', 1.571, False),
        ('<compiler angle="radian"/>', 'range="0 90"', 90, False),
        ("", "", None, False),
    ],
    ids=["degrees by default", "degrees", "radians", "no range"],
)
def test_angles_of_mujoco_are_written_out_only_where_none_is_said(compiler, limit, upper, is_rewritten, tmp_path):
    file = tmp_path / "robot.xml"
    bodies = f'<worldbody><body name="a"><joint name="j" {limit}/></body></worldbody>'
    file.write_text(f'<mujoco model="hinge">{compiler}{bodies}</mujoco>', encoding="utf-8")
    model = read_model(file)
    (joint,) = model.joints
    assert joint.upper == (None if upper is None else pytest.approx(upper, abs=1e-3))
    assert any("<compiler> has no angle" in finding.message for finding in model.findings) == is_rewritten
    assert model.name == "hinge"


@pytest.mark.parametrize("use", ["visual", "collision"])
def test_a_missing_collision_mesh_is_an_error_and_a_missing_visual_one_is_left_out(tmp_path, use):
    mesh = f'<{use}><geometry><mesh filename="package://arm/meshes/a.stl"/></geometry></{use}>'
    file = tmp_path / "robot.urdf"
    file.write_text(arm().replace("</link>", f"{mesh}</link>", 1), encoding="utf-8")
    model = read_model(file)
    (finding,) = (each for each in model.findings if "mesh" in each.kind or "visual" in each.kind)
    assert (finding.severity == "error") == (use == "collision")
    assert "a.stl" in finding.message
    assert str(tmp_path) in str(finding)
    (tmp_path / "elsewhere" / "meshes").mkdir(parents=True)
    (tmp_path / "elsewhere" / "meshes" / "a.stl").write_bytes(b"\0" * 84)
    assert [mesh.path for mesh in read_model(file, packages={"arm": tmp_path / "elsewhere"}).meshes] == [
        tmp_path / "elsewhere" / "meshes" / "a.stl"
    ]


@pytest.mark.parametrize(
    ("variable", "folder"),
    [
        ("AMENT_PREFIX_PATH", "install/share/arm"),
        ("ROS_PACKAGE_PATH", "install/arm"),
        ("GZ_SIM_RESOURCE_PATH", "install/arm"),
        ("GAZEBO_MODEL_PATH", "install/arm"),
    ],
)
def test_a_package_is_found_where_ros_and_gazebo_look(variable, folder, tmp_path, monkeypatch):
    monkeypatch.setenv(variable, os.pathsep.join([str(tmp_path / "nothing"), str(tmp_path / "install")]))
    mesh = tmp_path / folder / "meshes" / "a.stl"
    mesh.parent.mkdir(parents=True)
    mesh.write_bytes(b"\0" * 84)
    file = tmp_path / "robots" / "robot.urdf"
    file.parent.mkdir()
    visual = '<visual><geometry><mesh filename="package://arm/meshes/a.stl"/></geometry></visual>'
    file.write_text(arm().replace("</link>", f"{visual}</link>", 1), encoding="utf-8")
    assert [found.path for found in read_model(file).meshes] == [mesh]


@pytest.mark.parametrize("name", ["a robot.urdf", "it's.urdf", 'say "hi".urdf', "ünï.urdf"])
def test_any_name_of_a_file_will_do(tmp_path, name, capsys):
    (tmp_path / name).write_text(arm(), encoding="utf-8")
    assert main(["robot", str(tmp_path / name)]) == 0
    assert "2, with a mass of 2" in capsys.readouterr().out


def unusual(folder, kind):
    path = folder / f"{kind}.urdf"
    if kind == "folder":
        path.mkdir()
    elif kind == "mesh":
        path = folder / "a.stl"
        path.write_bytes(b"solid a\nendsolid a\n")
    elif kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("robot.urdf", arm())
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(2**30)
    elif kind == "bomb":
        entities = "".join(f'<!ENTITY e{k} "{f"&e{k - 1};" * 10}">' for k in range(1, 20))
        path.write_text(f'<!DOCTYPE r [<!ENTITY e0 "x">{entities}]><robot name="&e19;"/>', encoding="utf-8")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "deep":
        path.write_text("<robot>" * 100_000, encoding="utf-8")
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in the file system")
@pytest.mark.parametrize("kind", ["folder", "mesh", "zip", "huge", "bomb", "pipe", "deep", "missing"])
def test_what_is_no_robot_is_a_sentence(tmp_path, kind, capsys):
    path = unusual(tmp_path, kind)
    assert main(["robot", str(path)]) in {1, 2}
    out, err = capsys.readouterr()
    assert path.name in out + err
    assert "Traceback" not in out + err


def test_the_card_of_a_robot_has_its_joints_and_findings_also_as_json(tmp_path, capsys):
    file = tmp_path / "robot.urdf"
    file.write_text(arm(effort=0), encoding="utf-8")
    assert main(["robot", str(file)]) == 0
    card = capsys.readouterr().out
    assert "j      revolute  -1.00 to 1.00" in card
    assert f"{file}:3: warning: " in card
    assert main(["robot", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [joint["name"] for joint in found["joints"]] == ["j"]
    assert [(each["kind"], each["severity"]) for each in found["findings"]] == [("no-effort", "warning")]


def test_an_error_and_a_package_that_is_none_end_the_command_with_another_code(tmp_path, capsys):
    file = tmp_path / "robot.urdf"
    file.write_text(arm(joint=JOINT.replace('"b"', '"c"')), encoding="utf-8")
    assert main(["robot", str(file)]) == 1
    assert "[unknown-link]" in capsys.readouterr().out
    assert main(["robot", str(file), "--package", "arm"]) == 2
    assert "expected NAME=DIR" in capsys.readouterr().err
    assert main(["robot", str(file), "--package", "arm=nowhere"]) == 1
    assert "there is no folder" in capsys.readouterr().err


def test_the_page_about_robots_has_every_finding():
    page = (DOCS / "robots.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `") and "(" not in line.split("`")[1]]
    assert rows == [f"| `{name}` | {kind.severity} | {kind.meaning} | {kind.remedy} |" for name, kind in KINDS.items()]


@pytest.mark.parametrize("name", ["r2d2.urdf", "kuka_iiwa/model.urdf", "franka_panda/panda.urdf", "a1/a1.urdf",
                                  "mjcf/ant.xml", "mjcf/humanoid.xml", "quadruped/minitaur.urdf"])  # fmt: skip
def test_models_that_bullet_brings_have_no_errors_and_moving_joints(name):
    model = read_model(Path(pybullet_data.getDataPath(), name))
    assert model.errors == ()
    assert len(model.moving) > 5


def test_reading_a_model_loads_no_bullet(tmp_path):
    file = tmp_path / "robot.urdf"
    file.write_text(arm(), encoding="utf-8")
    script = "import sys; from es_envs.bullet.models import read_model; read_model(sys.argv[1]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script, str(file)], capture_output=True, text=True, check=True)
    assert "pybullet" not in done.stdout.split()
