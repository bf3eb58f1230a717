"""Models of our own (URDF files), packaged as ``es_envs.urdf``; find one with ``es_envs.urdf_path(name)``."""
