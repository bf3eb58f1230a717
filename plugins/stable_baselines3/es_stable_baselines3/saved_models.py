"""Policies of Stable-Baselines3 as checkpoints: the weights in a saved model are read, and none of its code runs."""

import os
import pickle
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

import es_envs
from es_core.config.train_config import TrainConfig
from es_core.files import CheckpointError, open_plain, parse_json
from es_core.policies.by_name import make_policy
from es_core.policies.layered import Layered
from es_core.policies.layers import matrices
from es_core.policies.normalization import ObservationStatistics
from es_core.rollout.environment import make_env
from es_core.runs.checkpoint import Checkpoint
from es_envs.closing import closing_env
from es_envs.spaces import input_size

_MOST = 1_000_000_000  # bytes of the weights
_INFLATED = 4  # times its size in the file: Stable-Baselines3 compresses nothing
_KNOWN_FOR = 100  # generations that VecNormalize's statistics count for, if they are learnt further
_EPSILON = 1e-8  # that VecNormalize adds to each variance


@dataclass(frozen=True)
class _Layout:
    """Names of the layers that hold the weights of an algorithm's actor.

    Attributes:
        algorithms: the algorithms, for messages.
        layers: what the names of its layers begin with; a number follows.
        output: name of its output layer; None: the last of the layers.
        activation: of the hidden layers, unless the model says otherwise.
        squash: what becomes of outputs on their way to Box actions.
    """

    algorithms: str
    layers: str
    output: str | None
    activation: str
    squash: str


_LAYOUTS = (
    _Layout("PPO or A2C", "mlp_extractor.policy_net", "action_net", "tanh", "clip"),
    _Layout("SAC", "actor.latent_pi", "actor.mu", "relu", "tanh"),
    _Layout("TD3 or DDPG", "actor.mu", None, "relu", "tanh"),
    _Layout("DQN", "q_net.q_net", None, "relu", "clip"),
)
_ACTIVATIONS = {"Tanh": "tanh", "ReLU": "relu"}


def from_stable_baselines3(
    path: str | os.PathLike[str],
    env_id: str,
    *,
    env_kwargs: Mapping[str, Any] | None = None,
    max_episode_steps: int | None = None,
    preprocessing: Mapping[str, Any] | None = None,
    observation_mean: NDArray[np.floating[Any]] | None = None,
    observation_variance: NDArray[np.floating[Any]] | None = None,
    observation_clip: float = 10.0,
) -> Checkpoint:
    """Return the policy of a model that Stable-Baselines3 has saved, as a checkpoint.

    It acts like the model's ``predict(observation, deterministic=True)``. You can score it, film it, export it, and let
    evolution start from it: ``train(env_id, initial=checkpoint)``. Only the weights are read, with torch's
    ``weights_only``: no pickle of the file is opened. That is why a ``VecNormalize``'s statistics come as arrays.

    Args:
        path: the model's .zip, of PPO, A2C, SAC, TD3, DDPG or DQN with an ``MlpPolicy``.
        env_id: id of the environment that it was trained in.
        env_kwargs: keyword arguments of that environment.
        max_episode_steps: step limit, for an environment that has none of its own.
        preprocessing: see ``TrainConfig``: what happens to the environment's observations before the policy sees them.
        observation_mean: ``(n,)``, ``vec_normalize.obs_rms.mean``; None: observations are not normalised.
        observation_variance: ``(n,)``, ``vec_normalize.obs_rms.var``.
        observation_clip: ``vec_normalize.clip_obs``.

    Raises:
        FileNotFoundError: there is no such file.
        CheckpointError: it is no such model, or its weights are damaged.
        ValueError: its policy cannot be taken over, does not fit the environment, or the statistics do not fit it.
        ImportError: torch is not installed.
        UnknownEnvError: no such environment is registered.
    """
    weights, described = _read(Path(path))
    layout, layers = _actor(weights, path)
    config = TrainConfig.for_env(
        env_id,
        env_kwargs=env_kwargs or {},
        max_episode_steps=max_episode_steps,
        preprocessing=preprocessing or {},
        policy="mlp",
        hidden_sizes=tuple(int(weight.shape[0]) for weight, _ in layers[:-1]),
        activation=_activation(described, layout, path),
        action_squash="tanh" if _option(described, "squash_output") == "True" else layout.squash,
        observation_normalization=observation_mean is not None,
        observation_std_floor=_EPSILON**0.5,
        observation_clip=observation_clip,
    )
    definition = es_envs.definition(env_id)
    with closing_env(make_env(definition, config), definition.label) as env:
        observation_space, action_space = env.observation_space, env.action_space
    if not isinstance(observation_space, spaces.Box | spaces.Discrete):
        raise ValueError(
            f"{env_id} has observations {observation_space}: a policy of Stable-Baselines3 is taken over for Box or "
            "Discrete ones"
        )
    if isinstance(observation_space, spaces.Box) and _is_image(observation_space):
        raise ValueError(
            f"{env_id} has observations {observation_space}, which Stable-Baselines3 takes for images: it divides "
            "their pixels by 255 and may move their channels, which no policy here does"
        )
    policy = make_policy(config, observation_space, action_space)
    own, theirs = (policy.inputs, policy.outputs), (layers[0][0].shape[1], layers[-1][0].shape[0])
    if not isinstance(policy, Layered) or own != theirs:
        raise ValueError(
            f"{path} maps {theirs[0]} numbers to {theirs[1]}, and {env_id} needs {own[0]} to {own[1]}: it was trained "
            "in another environment, or with other env_kwargs"
        )
    mean = np.zeros(policy.size, np.float32)
    for (matrix,), (weight, bias) in zip(matrices(mean, policy.layers), layers, strict=True):
        matrix[:, :-1], matrix[:, -1] = weight, bias
    return Checkpoint(
        config=config,
        generation=0,
        mean=mean,
        strategy={},
        statistics=_statistics(observation_mean, observation_variance, input_size(observation_space)),
        observation_space=observation_space,
        action_space=action_space,
        trusted=True,
        where=str(path),
    )


def _is_image(space: spaces.Box) -> bool:
    """Tell what Stable-Baselines3 takes for an image."""
    return (
        len(space.shape) == 3 and space.dtype == np.uint8 and bool((space.low == 0).all() and (space.high == 255).all())
    )


def _read(path: Path) -> tuple[dict[str, NDArray[np.float32]], Mapping[str, Any]]:
    """The model's weights by name, and what it tells about itself in plain text."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"reading {path} needs torch: pip install 'es-envs[torch]'") from error
    try:
        with open_plain(path.resolve()) as file, zipfile.ZipFile(file) as model:
            size = os.fstat(file.fileno()).st_size
            stored, data = (_member(model, name, size) for name in ("policy.pth", "data"))
        described = parse_json(data)
        if not zipfile.is_zipfile(BytesIO(stored)):
            raise pickle.UnpicklingError("torch's format before 1.6, which may take any room")
        with zipfile.ZipFile(BytesIO(stored)) as inner:
            _require_modest(sum(member.file_size for member in inner.infolist()), len(stored))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickles, which are refused
            loaded: dict[str, torch.Tensor] = torch.load(BytesIO(stored), map_location="cpu", weights_only=True)
        _require_modest(sum(value.numel() for value in loaded.values()), len(stored))  # views may repeat what is stored
        weights = {name: np.asarray(value.numpy(), np.float32) for name, value in loaded.items()}
    except pickle.PickleError as error:  # torch's own words advise to unpickle it
        raise CheckpointError(
            f"{path} is refused: its policy.pth is damaged, or has pickled classes among its weights, which are never "
            "read, since they could run code. Save the model again with `model.save(...)` of Stable-Baselines3"
        ) from error
    except (
        zipfile.BadZipFile,
        KeyError,
        ValueError,
        RuntimeError,
        AttributeError,
        EOFError,
        NotImplementedError,
    ) as error:
        raise CheckpointError(
            f"{path} cannot be read as a model of Stable-Baselines3: {type(error).__name__}: {str(error)[:300]}"
        ) from error
    if not all(np.isfinite(weight).all() for weight in weights.values()):
        raise CheckpointError(f"{path} has weights that are not finite")
    return weights, described if isinstance(described, dict) else {}


def _member(model: zipfile.ZipFile, name: str, size: int) -> bytes:
    """Content of a file in a model of ``size`` bytes."""
    member = model.getinfo(name)
    _require_modest(member.file_size, size)
    return model.read(member)


def _require_modest(size: int, stored: int) -> None:
    """Refuse what takes far more room than it has in the file, and would fill the memory.

    Raises:
        ValueError: the message says how much.
    """
    if size > min(_MOST, _INFLATED * stored):
        raise ValueError(f"{size} bytes of it are stored in {stored}, which is no model's proportion, or too large")


def _actor(
    weights: Mapping[str, NDArray[np.float32]], path: object
) -> tuple[_Layout, list[tuple[NDArray[np.float32], NDArray[np.float32]]]]:
    """The layout of these weights, and the weights and biases of the actor's layers."""
    strange = next((name for name in weights if "features_extractor." in name or "lstm" in name), None)
    if strange is not None:
        kind = "remembers" if "lstm" in strange else "has features of its own, as for images"
        raise ValueError(f"the policy in {path} {kind} ({strange}): only an MlpPolicy can be taken over")
    if "actor.latent_pi.0.weight" in weights and "actor.mu.0.weight" in weights:
        raise ValueError(
            f"the policy in {path} was trained with use_sde=True, and clips the mean of its actions, which no policy "
            "here does: it cannot be taken over"
        )
    for layout in _LAYOUTS:
        numbers = sorted(
            int(number)
            for name in weights
            if name.startswith(f"{layout.layers}.") and name.endswith(".weight")
            if (number := name.removeprefix(f"{layout.layers}.").removesuffix(".weight")).isdecimal()
        )
        names = [f"{layout.layers}.{number}" for number in numbers]
        if layout.output is not None and f"{layout.output}.weight" in weights:
            names.append(layout.output)
        elif layout.output is not None or not names:
            continue
        layers = [(weights[f"{name}.weight"], weights.get(f"{name}.bias")) for name in names]
        if all(weight.ndim == 2 and bias is not None for weight, bias in layers):
            return layout, layers  # type: ignore[return-value]
    known = ", ".join(layout.algorithms for layout in _LAYOUTS)
    raise ValueError(f"the policy in {path} is none of {known} with an MlpPolicy: it cannot be taken over")


def _option(described: Mapping[str, Any], name: str) -> str | None:
    """An argument of a model's policy, as text; None if the model does not contain it."""
    arguments = described.get("policy_kwargs")
    value = arguments.get(name) if isinstance(arguments, dict) else None
    return None if value is None else str(value)


def _activation(described: Mapping[str, Any], layout: _Layout, path: object) -> str:
    message = _option(described, "activation_fn")
    if message is None:
        return layout.activation
    name = message.rstrip("'>").rpartition(".")[2]
    if name not in _ACTIVATIONS:
        raise ValueError(
            f"the policy in {path} has the activation {name}: only {', '.join(_ACTIVATIONS)} can be taken over"
        )
    return _ACTIVATIONS[name]


def _statistics(
    mean: NDArray[np.floating[Any]] | None, variance: NDArray[np.floating[Any]] | None, size: int
) -> ObservationStatistics | None:
    if mean is None and variance is None:
        return None
    if mean is None or variance is None:
        raise ValueError("observation_mean and observation_variance belong together: give both or neither")
    center, spread = np.asarray(mean, np.float64), np.asarray(variance, np.float64)
    for name, values in (("observation_mean", center), ("observation_variance", spread)):
        if values.shape != (size,) or not np.isfinite(values).all():
            raise ValueError(f"{name} must be {size} finite numbers, got shape {values.shape}")
    if (spread < 0).any():
        raise ValueError("observation_variance must not be negative")
    return ObservationStatistics(_KNOWN_FOR, _KNOWN_FOR * center, _KNOWN_FOR * (spread + _EPSILON + center**2))
