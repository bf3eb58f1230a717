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
from es_core.policies.defaults import with_preprocessing
from es_core.rollout.errors import SpaceError
from es_envs import EnvDefinition
from es_envs.closing import close_env
from es_envs.definition import KeywordError, RenderError
from es_envs.masks import KEY, has_choices, is_allowed, with_masks
from es_envs.return_values import Checked
from es_envs.spaces import is_image

Env = gymnasium.Env[Any, Any]


def preprocessed(env: Env, settings: Mapping[str, Any]) -> Env:
    """Wrap ``env`` as a config's ``preprocessing`` says (Mnih et al. 2015), in this order.

    - skip: repeat each action for so many steps, and see the larger value of each entry of the last two;
    - pixels: see a picture of the environment, of so many pixels in height and width, instead of what it returns: what
      its eyes see (``BulletEnv.seen``), else what ``render`` draws;
    - grey: colours ``(height, width, 3)`` become shades, in the pictures of a Dict, too;
    - resize: so many pixels in height and width, in the pictures of a Dict, too;
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


class _Part(gymnasium.Env[Any, Any]):
    """A part of an observation, for a wrapper to say what becomes of it."""

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self.observation_space = space


def _in_each_picture(
    wrap: Callable[[Env, Mapping[str, Any]], Env], is_for: Callable[[gymnasium.Space[Any]], bool]
) -> Callable[[Env, Mapping[str, Any]], Env]:
    """Return a wrapper of observations that are pictures, or of the pictures in a Dict, at any depth."""

    def wrap_pictures(env: Env, settings: Mapping[str, Any]) -> Env:
        space = env.observation_space
        if not isinstance(space, spaces.Dict):
            return wrap(env, settings)
        changed: dict[str, Any] = {
            key: wrap_pictures(_Part(part), settings) for key, part in space.items() if _holds(part, is_for)
        }
        if not changed:
            raise ValueError("there are no pictures for it")
        after = spaces.Dict([(key, changed[key].observation_space if key in changed else part)
                             for key, part in space.items()])  # fmt: skip
        return TransformObservation(
            env, lambda seen: {**seen, **{key: each.observation(seen[key]) for key, each in changed.items()}}, after
        )

    return wrap_pictures


def _holds(space: gymnasium.Space[Any], is_for: Callable[[gymnasium.Space[Any]], bool]) -> bool:
    return any(_holds(part, is_for) for part in space.values()) if isinstance(space, spaces.Dict) else is_for(space)


def _is_coloured(space: gymnasium.Space[Any]) -> bool:
    return is_image(space) and space.shape is not None and space.shape[-1] == 3


def _is_picture(space: gymnasium.Space[Any]) -> bool:
    """Return True for an image, and for one without its dimension of channels, as grey ones to be stacked are."""
    is_flat = isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 2
    return is_image(space) or (is_flat and bool(np.all(space.high == 255)))  # type: ignore[attr-defined]


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


def _resize(env: Env, settings: Mapping[str, Any]) -> Env:
    return ResizeObservation(env, (settings["resize"], settings["resize"]))


def _flattened(env: Env) -> Env:
    if not env.observation_space.is_np_flattenable:
        raise ValueError("a part of it has no fixed length, so it is no row of numbers")
    return FlattenObservation(env)


def _stack(env: Env, settings: Mapping[str, Any]) -> Env:
    copied: Env = TransformObservation(env, deepcopy, env.observation_space)  # the environment may reuse its arrays
    return FrameStackObservation(copied, settings["stack"])


_WRAPPERS: Mapping[str, Callable[[Env, Mapping[str, Any]], Env]] = {
    "skip": _skip,
    "pixels": _pixels,
    "grey": _in_each_picture(_grey, _is_coloured),
    "resize": _in_each_picture(_resize, _is_picture),
    "stack": _stack,
    "flatten": lambda env, _: _flattened(env),
}


def make_env(definition: EnvDefinition, config: TrainConfig, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    """Make the environment of ``prepare_env``, for a config that it needs not complete; for errors see there."""
    env, _ = prepare_env(definition, config, **kwargs)
    return env


def prepare_env(
    definition: EnvDefinition, config: TrainConfig, **kwargs: Any
) -> tuple[gymnasium.Env[Any, Any], TrainConfig]:
    """Make the bare environment, within the wrappers of the config's ``preprocessing``.

    Returns:
        The environment, and the config with the ``preprocessing`` that the rule chooses where that is left open.

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
    config = with_preprocessing(config, env.observation_space)
    try:
        return preprocessed(with_masks(env) if config.action_masks else env, config.preprocessing), config
    except ValueError as error:
        close_env(env, definition.label)
        raise SpaceError(f"{definition.label}: {error}") from error
