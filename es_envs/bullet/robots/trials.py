"""A robot in Bullet, left alone: whether it stands or keeps its pose, and what is to be seen of it."""

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from es_envs.bullet.client import pybullet
from es_envs.bullet.robots.env import RobotEnv
from es_envs.bullet.robots.proposal import SECONDS, Proposal
from es_envs.bullet.robots.tasks import Stand
from es_envs.bullet.robots.tree import Tree

_STEPS_PER_SECOND = 30
_LARGEST = 100.0  # robot [m]
_NEAR_FLOOR = 0.02  # share of a robot's height within which a link touches the floor


def bend_leg(
    env: RobotEnv, chain: Sequence[str], pose: Mapping[str, float], bend: float, tree: Tree
) -> dict[str, float]:
    """Find the angle of a thigh with which the foot is below the hip, if the knee is bent."""
    thigh, knee = chain[:2]
    limits, indices = env.limits(), env.joints(env.body)

    def within(name: str, value: float) -> float:
        low, high = limits[name] or (-math.pi, math.pi)
        return min(max(value, low), high)

    sign = math.copysign(1.0, axis_of(env, knee)[1])
    bent = within(knee, sign * bend)
    if limits[knee] and not limits[knee][0] <= 0 <= limits[knee][1]:  # type: ignore[index]
        bent = pose.get(knee, 0.0)
    ankle_or_foot = tree.joints[chain[2]].child if len(chain) > 2 else _end(tree, knee)
    low, high = limits[thigh] or (-1.5, 1.5)
    best, best_error = pose.get(thigh, 0.0), math.inf
    for angle in np.linspace(max(low, -1.5), min(high, 1.5), 121).tolist():
        for name, value in ((thigh, angle), (knee, bent)):
            pybullet.resetJointState(env.body, indices[name], value, physicsClientId=env.client)
        foot, hip = place_of(env, ankle_or_foot), place_of(env, tree.joints[thigh].child)
        error = abs(foot[0] - hip[0]) + (10.0 if foot[2] > hip[2] else 0.0)
        if error < best_error:
            best, best_error = angle, error
    found = {thigh: best, knee: bent}
    if len(chain) > 2:
        turned = sum(found[name] * math.copysign(1.0, axis_of(env, name)[1]) for name in (thigh, knee))
        found[chain[2]] = within(chain[2], -turned * math.copysign(1.0, axis_of(env, chain[2])[1]))
    return found


def _end(tree: Tree, knee: str) -> str:
    """The farthest link below a knee."""
    child = tree.joints[knee].child
    below = [joint.child for joint in tree.inside(child)]
    return max([child, *below], key=lambda link: -tree.height(link))


def place_of(env: RobotEnv, link: str) -> tuple[float, float, float]:
    """Where a link's frame is in the world [m]."""
    return env.point(*env.find_link(link))


def axis_of(env: RobotEnv, joint: str) -> NDArray[np.float64]:
    """A joint's axis in the world."""
    index = env.joints(env.body)[joint]
    own = pybullet.getJointInfo(env.body, index, physicsClientId=env.client)[13]
    turn = pybullet.getLinkState(env.body, index, physicsClientId=env.client)[5]
    axis: NDArray[np.float64] = np.reshape(pybullet.getMatrixFromQuaternion(turn), (3, 3)) @ own
    return axis


def stand(proposal: Proposal, file: Path) -> float:
    """Return how long a robot stands that is left alone [s], at most ``SECONDS``."""
    with closing(proposal.env_class(file, task=Stand(push=0.0))()) as env:
        env.reset(seed=0)
        rest = np.zeros(len(env.motors), np.float32)
        for step in range(round(SECONDS * _STEPS_PER_SECOND)):
            if env.step(rest)[2] or not np.isfinite(env.place_of_base).all() or abs(env.place_of_base[2]) > 1e3:
                return step / _STEPS_PER_SECOND
    return SECONDS


def hold(proposal: Proposal, file: Path) -> float:
    """Return how far a joint of a fixed robot moves that is left alone [rad or m]."""
    with closing(proposal.at_rest(file)()) as env:
        env.reset(seed=0)
        start = env.read_joints()
        rest = np.zeros(len(env.motors), np.float32)
        for _ in range(round(SECONDS * _STEPS_PER_SECOND)):
            env.step(rest)
        return float(np.abs(np.subtract(env.read_joints(), start)).max())


def links_with_shapes(env: RobotEnv) -> list[int]:
    """The base, -1, and the links that have a collision shape."""
    links = range(-1, pybullet.getNumJoints(env.body, physicsClientId=env.client))
    if Path(env.model).suffix == ".xml":  # of MJCF, asking for a shape that is not there ends the process
        boxes = {link: np.ptp(pybullet.getAABB(env.body, link, env.client), axis=0) for link in links}
        return [link for link, size in boxes.items() if 0 < size.max() < _LARGEST]
    return [link for link in links if pybullet.getCollisionShapeData(env.body, link, env.client)]


def box_of(env: RobotEnv) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The least and the greatest x, y and z of the robot's shapes in the world [m]."""
    boxes = np.array([pybullet.getAABB(env.body, link, env.client) for link in links_with_shapes(env)])
    if not len(boxes):
        return np.zeros(3), np.full(3, 0.1)
    return boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)


def mass_of(env: RobotEnv) -> float:
    """The robot's mass [kg]."""
    count = pybullet.getNumJoints(env.body, physicsClientId=env.client)
    return math.fsum(pybullet.getDynamicsInfo(env.body, link, env.client)[0] for link in range(-1, count))


def feet_of(env: RobotEnv) -> list[str]:
    """Links that are as low as the lowest one."""
    names, (low, high) = env.links(), box_of(env)
    near = low[2] + _NEAR_FLOOR * (high[2] - low[2]) + 0.005
    return [
        names[k + 1]
        for k in links_with_shapes(env)
        if k >= 0 and pybullet.getAABB(env.body, k, env.client)[0][2] < near
    ]


def touches_itself(env: RobotEnv) -> bool:
    """Whether links touch each other in the present pose."""
    points = pybullet.getContactPoints(env.body, env.body, physicsClientId=env.client)
    return any(point[8] < 0 for point in points)
