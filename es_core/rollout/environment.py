"""The environment that a rollout steps: bare, or within Gymnasium's wrappers for pictures and frames."""

from collections import deque
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import DependencyNotInstalled
from gymnasium.wrappers import (
    AddRenderObservation,
    FlattenObservation,
    FrameStackObservation,
    GrayscaleObservation,
    MaxAndSkipObservation,
    ResizeObservation,
    TransformObservation,
)
from numpy.typing import NDArray

from es_core.config.train_config import TrainConfig
from es_core.rollout.errors import SpaceError
from es_envs import EnvDefinition
from es_envs.closing import close_env
from es_envs.definition import KeywordError, RenderError
from es_envs.masks import KEY, has_choices, is_allowed, with_masks
from es_envs.returned import Checked

Env = gymnasium.Env[Any, Any]


def preprocessed(env: Env, settings: Mapping[str, Any]) -> Env:
    """Wrap ``env`` as a config's ``preprocessing`` says (Mnih et al. 2015), in this order.

    - skip: repeat each action for so many steps, and see the larger value of each entry of the last two;
    - pixels: see a picture of the environment, of so many pixels in height and width, instead of what it returns: what
      its eyes see (``BulletEnv.seen``), else what ``render`` draws;
    - grey: colours ``(height, width, 3)`` become shades;
    - resize: so many pixels in height and width;
    - stack: the last observations along a new first dimension, the oldest first; at a reset all are the first one;
    - flatten: all numbers in one row, for policies that are not for images.

    Raises:
        ValueError: a wrapper is not for these observations, or needs a package that is not installed.
    """
    if any(settings.values()):
        env = Checked(env)  # or the wrappers would fail on wrong return values
    for name, wrap in _WRAPPERS.items():
        if not settings.get(name):
            continue
        try:
            env = wrap(env, settings)
        except DependencyNotInstalled as error:
            raise ValueError(f"preprocessing {name!r} needs OpenCV: pip install 'es-envs[image]'") from error
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"preprocessing {name!r} is not for observations {env.observation_space}: {error}"
            ) from error
    return env


class _Skip(MaxAndSkipObservation[Any, Any, Any]):
    """Gymnasium's wrapper without its bug: if an episode ends within a step, that one shows the last step's frames."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        frames: deque[Any] = deque(maxlen=2)
        total, terminated, truncated = 0.0, False, False
        info: dict[str, Any] = {}
        for _ in range(self._skip):
            if KEY in info and has_choices(self.action_space) and not is_allowed(self.action_space, action, info[KEY]):
                break  # it may be repeated no more
            observation, reward, terminated, truncated, info = self.env.step(action)
            frames.append(np.array(observation))  # the environment may reuse its array
            total += float(reward)
            if terminated or truncated:
                break
        return np.max(frames, axis=0), total, terminated, truncated, info


def _skip(env: Env, settings: Mapping[str, Any]) -> Env:
    if not isinstance(env.observation_space, spaces.Box | spaces.MultiBinary):
        raise ValueError("the larger of two choices is no state")
    return _Skip(env, settings["skip"])


class _Drawn(AddRenderObservation[Any, Any, Any]):
    """Gymnasium's wrapper, which takes pictures of any type."""

    def observation(self, observation: Any) -> NDArray[np.uint8]:
        picture = np.asarray(super().observation(observation))
        if picture.dtype != np.uint8 or picture.shape != self.observation_space.shape:
            raise ValueError(
                "render() must always return uint8 pixels of one shape, (height, width, 3), got "
                f"{picture.dtype} {picture.shape}"
            )
        return picture


@runtime_checkable
class _Seeing(Protocol):
    def seen(self, size: int) -> NDArray[np.uint8]: ...


def _pixels(env: Env, settings: Mapping[str, Any]) -> Env:
    size = settings["pixels"]
    bare = env.unwrapped
    if isinstance(bare, _Seeing):
        space = spaces.Box(0, 255, (size, size, 3), np.uint8)
        return TransformObservation(env, lambda _: bare.seen(size), space)
    if env.render_mode != "rgb_array":
        raise ValueError(f"its render_mode is {env.render_mode!r}, and only 'rgb_array' returns pictures")
    return ResizeObservation(_Drawn(env), (size, size))


def _grey(env: Env, settings: Mapping[str, Any]) -> Env:
    return GrayscaleObservation(env, keep_dim="stack" not in settings)  # an image has three dimensions


def _stack(env: Env, settings: Mapping[str, Any]) -> Env:
    copied: Env = TransformObservation(env, deepcopy, env.observation_space)  # the environment may reuse its arrays
    return FrameStackObservation(copied, settings["stack"])


_WRAPPERS: Mapping[str, Callable[[Env, Mapping[str, Any]], Env]] = {
    "skip": _skip,
    "pixels": _pixels,
    "grey": _grey,
    "resize": lambda env, settings: ResizeObservation(env, (settings["resize"], settings["resize"])),
    "stack": _stack,
    "flatten": lambda env, _: FlattenObservation(env),
}


def make_env(definition: EnvDefinition, config: TrainConfig, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    """Make the bare environment, within the wrappers of the config's ``preprocessing``.

    Raises:
        PluginError: the environment cannot be made.
        SpaceError: a wrapper is not for its observations.
    """
    drawn = {"render_mode": "rgb_array"} if config.preprocessing.get("pixels") else {}
    given = {**drawn, **config.keyword_arguments, **kwargs}
    ranges = given.get("randomize")
    if drawn and isinstance(ranges, Mapping) and "sensor_noise" in ranges:
        raise SpaceError("randomize 'sensor_noise' is for numbers: leave it out where preprocessing has 'pixels'")
    try:
        env = definition.build(**given)
    except KeywordError as error:
        if config.randomize and "'randomize'" in str(error):
            raise SpaceError(
                f"{definition.label} cannot be randomised: it takes no argument 'randomize', as a BulletEnv does"
            ) from error
        raise
    except RenderError as error:
        if not drawn:
            raise
        raise SpaceError(f"preprocessing 'pixels' needs an environment that draws pictures: {error}") from error
    try:
        return preprocessed(with_masks(env) if config.action_masks else env, config.preprocessing)
    except ValueError as error:
        close_env(env, definition.label)
        raise SpaceError(f"{definition.label}: {error}") from error
