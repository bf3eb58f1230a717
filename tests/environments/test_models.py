"""Models of robots: what is read of them, and what is found wrong with them, without Bullet."""

from es_envs.bullet.models import read_model

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
