"""Xacro files, expanded by the real package in a process of its own."""

import sys
import time

import pytest

pytest.importorskip("xacro")

from es_core.cli import main
from es_envs.bullet.models import read_model

HEAD = '<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro">'
LINK = '<link name="{}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>'
PARTS = """<?xml version="1.0"?>
<robot xmlns:xacro="http://www.ros.org/wiki/xacro">
  <xacro:property name="length" value="0.4"/>
  <xacro:macro name="arm" params="name parent *origin">
    <link name="${name}"><inertial><mass value="${2 * length}"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>
    <joint name="${name}_joint" type="revolute">
      <xacro:insert_block name="origin"/>
      <parent link="${parent}"/><child link="${name}"/><limit lower="${-pi / 2}" upper="${pi / 2}" effort="5" velocity="1"/>
    </joint>
  </xacro:macro>
</robot>
"""  # noqa: E501


def read(folder, text, **options):
    file = folder / "robot.urdf.xacro"
    file.write_text(text, encoding="utf-8")
    return read_model(file, **options)


def test_properties_macros_conditions_and_included_files_become_links_and_joints(tmp_path):
    package = tmp_path / "my arm"
    package.mkdir()
    (package / "parts.xacro").write_text(PARTS, encoding="utf-8")
    model = read(
        tmp_path,
        f"""{HEAD}
<xacro:include filename="$(find my_arm)/parts.xacro"/>{LINK.format("base")}
<xacro:arm name="upper" parent="base"><origin xyz="0 0 ${{length}}"/></xacro:arm>
<xacro:if value="${{length > 1}}">{LINK.format("never")}</xacro:if>
</robot>""",
        packages={"my_arm": package},
    )
    assert (model.format, model.errors) == ("xacro", ())
    assert [link.name for link in model.links] == ["base", "upper"]
    assert model.mass == pytest.approx(1.8)
    (joint,) = model.joints
    assert (joint.upper, joint.origin[2]) == (pytest.approx(1.5708, abs=1e-4), 0.4)


def test_an_expanded_file_is_loaded_and_the_original_stays_as_it_is(tmp_path):
    pybullet_env = pytest.importorskip("es_envs.bullet").RobotEnv
    text = f"""{HEAD}{LINK.format("a")}{LINK.format("b")}
<joint name="j" type="continuous"><parent link="a"/><child link="b"/><axis xyz="0 ${{1}} 0"/></joint></robot>"""
    file = tmp_path / "robot.xacro"
    file.write_text(text, encoding="utf-8")
    env = type("Env", (pybullet_env,), {"model": file, "motors": {"j": 1.0}, "base": "fixed"})()
    assert list(env.limits()) == ["j"]
    env.close()
    assert [path.name for path in tmp_path.iterdir()] == ["robot.xacro"]
    assert file.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<xacro:include filename='$(find nowhere)/parts.xacro'/>", "no package 'nowhere' at hand"),
        ("<xacro:include filename='missing.xacro'/>", "missing.xacro"),
        ("<link name='${undefined}'/>", "undefined"),
        ("<xacro:arm/>", "arm"),
        ("<link name='${1 / 0}'/>", "division by zero"),
        ("<xacro:property name='p' value='${p}'/><link name='${p}'/>", "p"),
    ],
)
def test_what_cannot_be_expanded_is_a_finding_that_says_why(tmp_path, text, message, capsys):
    model = read(tmp_path, f"{HEAD}{text}</robot>")
    (finding,) = model.errors
    assert finding.kind == "xacro"
    assert message in str(finding)
    assert main(["robot", str(tmp_path / "robot.urdf.xacro")]) == 1
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limits")
@pytest.mark.parametrize(
    "text",
    [
        "<link name=\"${'x' * 10 ** 10}\"/>",
        "<xacro:macro name='m'><xacro:m/></xacro:macro><xacro:m/>",
        "<link name=\"${__import__('os').getpid()}\"/>",
        "<link name=\"${open('/etc/passwd').read()}\"/>",
        '<link name="${().__class__.__mro__[1].__subclasses__()}"/>',
    ],
)
def test_a_hostile_file_ends_in_a_finding_and_in_time(tmp_path, text):
    begin = time.monotonic()
    model = read(tmp_path, f"{HEAD}{text}</robot>")
    assert [finding.kind for finding in model.errors] == ["xacro"]
    assert time.monotonic() - begin < 60
    assert len(str(model.errors[0])) < 3000


def test_a_file_that_another_one_includes_is_not_expanded_without_its_name(tmp_path):
    """Only a file that you name yourself is a program."""
    (tmp_path / "robot.urdf").write_text(f"{HEAD}<xacro:include filename='x.xacro'/></robot>", encoding="utf-8")
    model = read_model(tmp_path / "robot.urdf")
    assert "does not end with .xacro" in str(model.errors[0])
