"""The old ``gym``, which Gymnasium has replaced: what comes from it, and the way to Gymnasium."""

import sys

_PORTS = {"pybullet_envs": "pybullet_envs_gymnasium"}  # packages with the same ids, by the package they replace


def is_old_gym(value: object) -> bool:
    """Return True if ``value`` is a class or an object of ``gym``, or of a class derived from one of them."""
    bases = getattr(value, "__mro__", type(value).__mro__)
    return any(base.__module__.partition(".")[0] == "gym" for base in bases)


def describe_way_out(module: str) -> str:
    """Say how a module that uses ``gym`` comes to Gymnasium."""
    package = module.partition(".")[0]
    if package == "gym":
        return "Gymnasium has the same environments: give their id, such as 'CartPole-v1'"
    if package in _PORTS:
        port = _PORTS[package]
        return f"{port} has the same environments for Gymnasium: pip install {port}, then name '{port}:ID'"
    return (
        f"in {module} replace `import gym` by `import gymnasium as gym`, let reset(seed=..., options=...) return "
        "(observation, info) and step (observation, reward, terminated, truncated, info); or wrap the environment: "
        "pip install 'shimmy[gym-v26]', then gymnasium.make('GymV26Environment-v0', env=...), or with v21 in the place "
        "of v26 if its step returns four values"
    )


def registers(env_id: str) -> bool:
    """Return True if an imported ``gym`` knows the id."""
    registration = sys.modules.get("gym.envs.registration")
    known = getattr(registration, "registry", None)
    return env_id in getattr(known, "env_specs", known or ())


def has_port(package: str) -> bool:
    """Return True if another package has its environments for Gymnasium."""
    return package in _PORTS
