"""Models of robots: read, examined and made loadable, without a connection to Bullet."""

from es_envs.bullet.models.findings import KINDS, Finding, Kind
from es_envs.bullet.models.reading import read_model
from es_envs.bullet.models.robot import Joint, Link, Mesh, Model

__all__ = ["KINDS", "Finding", "Joint", "Kind", "Link", "Mesh", "Model", "read_model"]
