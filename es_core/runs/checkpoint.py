"""Checkpoints: a policy and the state of its training in one file, arrays as safetensors, all else as canonical JSON.

Nothing in the file is code. The JSON is in a single metadata key (several would be written in varying order), with
checksums of itself and of the arrays, so that equal runs give equal bytes and damage is detected.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import gymnasium
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

import es_envs
from es_core.config.checks import finite, whole
from es_core.config.choices import SCRIPTED
from es_core.config.train_config import TrainConfig
from es_core.config.trust import require_trusted_policy
from es_core.files import CheckpointError, parse_json, read_whole, require_modest, write_whole
from es_core.formatting import shell_line, shown
from es_core.policies.actor import Actor
from es_core.policies.by_name import make_policy
from es_core.policies.engines import make_actor
from es_core.policies.network import Policy
from es_core.policies.normalization import REFERENCE_SIZE, ObservationStatistics, ReferenceBatch, Statistics
from es_core.rollout.environment import make_env
from es_core.runs.space_json import space_from_json, space_to_json
from es_envs.closing import closing_env
from es_envs.spaces import input_size

if TYPE_CHECKING:
    import torch

FORMAT = 1
_KEY = "es_envs"
_LEADER = "leader."  # before the names of its arrays
_LONGEST = 1000  # characters of an error message, which may quote the file
_MOST = 1_000_000_000  # bytes of the arrays in a file


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """The centre of generation ``generation``, with everything needed to run that generation.

    Attributes:
        config: the run's config.
        generation: from 0.
        mean: ``(d,)`` float32.
        strategy: state of the strategy and its optimiser (arrays and numbers by name).
        statistics: statistics that normalise observations or hidden layers, or None.
        observation_space: the environment's.
        action_space: the environment's.
        progress: what else a resumed run needs, as ``TrainingState`` has it: steps so far, the best centre, and so on.
        leader: where a challenger of the run's race plays, the contender that leads, as it was after its last turn.
        trusted: True if the caller vouches for it, so that its policy may be any module; not in the file.
        where: its file, for messages; not in the file.
    """

    config: TrainConfig
    generation: int
    mean: NDArray[np.float32]
    strategy: Mapping[str, Any]
    statistics: Statistics | None
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    progress: Mapping[str, Any] = field(default_factory=dict)
    leader: "Checkpoint | None" = None
    trusted: bool = False
    where: str = "the checkpoint"

    def __repr__(self) -> str:
        return f"<Checkpoint of {self.config.env_id}, generation {self.generation}>"

    @property
    def parameter_hash(self) -> str:
        """Hash of the mean's bytes."""
        return parameter_hash(self.mean)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file atomically: a crash or a power failure leaves either the old file or the new one.

        Raises:
            ValueError: policy, spaces or settings are so large that ``load`` would refuse the file.
            OSError: the file cannot be written.
        """
        document, arrays = _parts(self)
        document |= {
            "format": FORMAT,
            "observation_space": space_to_json(self.observation_space),
            "action_space": space_to_json(self.action_space),
        }
        if self.leader is not None:
            document["leader"], theirs = _parts(self.leader)
            arrays |= {_LEADER + name: array for name, array in theirs.items()}
        document["tensors"] = {name: _digest(array) for name, array in arrays.items()}
        text = json.dumps({"document": document, "sha256": _json_digest(document)}, sort_keys=True, allow_nan=False)
        require_modest(text.encode())
        size = sum(array.nbytes for array in arrays.values())
        if size > _MOST:
            raise ValueError(
                f"policy {self.config.policy!r} has {self.mean.size} parameters, and a checkpoint of them would take "
                f"{size / 1e9:.1f} GB: at most {_MOST / 1e9:.0f} GB are allowed. It needs fewer where there are fewer "
                'numbers to see, for pictures by preprocessing={"resize": 84}, or {"pixels": 84} where they are part '
                "of an observation (on the command line: --preprocessing resize=84)"
            )
        content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, {_KEY: text})
        write_whole(Path(path), content)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, trust: bool = False) -> Self:
        """Read and verify a file. Reading runs no code and imports nothing that the file names.

        Args:
            path: the file.
            trust: allow a policy in a module outside the installed plugins, which ``actor`` and ``module`` import.

        Raises:
            FileNotFoundError: there is no such file.
            CheckpointError: the file is not a checkpoint, is damaged, or has another version's format.
        """
        path = Path(path)
        if path.is_dir():
            raise FileNotFoundError(f"{path} is a folder: expected a checkpoint, such as {path / 'best.safetensors'}")
        if not path.exists():
            raise FileNotFoundError(f"there is no checkpoint {path}")
        try:
            most = _MOST + _MOST // 100  # with their names and the JSON
            content = read_whole(path.resolve(), most)  # the caller's path may be a link
            header = parse_json(content[8 : 8 + int.from_bytes(content[:8], "little")])
            arrays = load(content)
            text = header.get("__metadata__", {}).get(_KEY)
        except (SafetensorError, OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise CheckpointError(
                f"{path} cannot be read as a checkpoint (cut off, damaged, or another format): {error}"
            ) from error
        if text is None:
            raise CheckpointError(f"{path} is a safetensors file, but not a checkpoint of es-envs")
        try:
            with np.errstate(over="raise", divide="raise", invalid="raise"):
                checkpoint = cls._from_document(_verified(text, arrays), arrays)
                return replace(checkpoint, trusted=trust, where=str(path))
        except CheckpointError as error:
            raise CheckpointError(f"{path}: {str(error)[:_LONGEST]}") from None
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            cause = f"{type(error).__name__}: {error}"[:_LONGEST]
            raise CheckpointError(f"{path} does not describe a checkpoint: {cause}") from error

    @classmethod
    def pretrained(cls, env_id: str) -> Self:
        """Load the checkpoint that a plugin ships with its environment.

        Args:
            env_id: the environment's id.

        Raises:
            UnknownEnvError: no such environment is registered.
            ValueError: the environment has no pretrained policy.
            PluginError: the plugin's file is missing, damaged, or belongs to another environment.
        """
        definition = es_envs.definition(env_id)
        if definition.pretrained is None:
            having = [name for name in es_envs.env_ids() if es_envs.definition(name).pretrained]
            raise ValueError(
                f"{definition.label} has no pretrained policy (these have one: {', '.join(having) or 'none'}); "
                f"to evolve one, {shell_line(['es-envs', 'train', env_id])}"
            )
        package, _, name = definition.pretrained.partition(":")
        try:
            with as_file(files(package) / name) as path:
                checkpoint = cls.load(path)
            if checkpoint.config.env_id != definition.id:
                raise CheckpointError(f"it is a policy for {checkpoint.config.env_id}")
        except (ImportError, OSError, TypeError, CheckpointError) as error:  # TypeError: a module is no package
            raise es_envs.PluginError(
                f"{definition.label}: its pretrained policy {definition.pretrained!r} cannot be used: {error}"
            ) from error
        return checkpoint

    @classmethod
    def scripted(cls, env_id: str, name: str = "random", *, env_kwargs: Mapping[str, Any] | None = None) -> Self:
        """A scripted policy in place of an evolved one: to be scored, filmed and watched, not to be saved.

        Args:
            env_id: the environment's id.
            name: a script of the environment's definition, or "random", which draws its actions.
            env_kwargs: keyword arguments of the environment.

        Raises:
            UnknownEnvError: no such environment is registered.
            ValueError: it has no such script, or env_kwargs is not a dict.
            PluginError: the script or the environment cannot be imported.
        """
        definition = es_envs.definition(env_id)
        definition.script(name)
        config = replace(TrainConfig.for_env(env_id, env_kwargs=env_kwargs or {}), policy=SCRIPTED + name)
        with closing_env(make_env(definition, config), definition.label) as env:
            return cls(
                config=config,
                generation=0,
                mean=np.zeros(0, np.float32),
                strategy={},
                statistics=None,
                observation_space=env.observation_space,
                action_space=env.action_space,
                trusted=True,
                where=f"{env_id}'s script {name!r}",
            )

    @classmethod
    def _from_document(cls, document: Mapping[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        leader: Self | None = None
        if "leader" in document:
            spaces = {name: document[name] for name in ("observation_space", "action_space")}
            theirs = {name.removeprefix(_LEADER): arrays.pop(name) for name in list(arrays) if name.startswith(_LEADER)}
            leader = cls._from_document({**document["leader"], **spaces}, theirs)
        config = TrainConfig.from_json(document["config"])
        observation_space = space_from_json(document["observation_space"])
        action_space = space_from_json(document["action_space"])
        mean, inputs = arrays["mean"], input_size(observation_space)
        size = mean.size  # a policy in a module must not be imported here: `policy` compares its size
        if ":" not in config.policy:
            size = make_policy(config, observation_space, action_space).size
        if size == 0:
            raise CheckpointError(f"a policy from {observation_space} to {action_space} has no parameters")
        expected: dict[str, tuple[int, ...]] = {"mean": (size,)}
        statistics: Statistics | None = None
        if config.virtual_batch_normalization:
            expected["reference"] = (REFERENCE_SIZE, inputs)
            statistics = ReferenceBatch(arrays["reference"])
        elif document["observations"] is not None:
            expected["statistics.total"] = expected["statistics.squares"] = (inputs,)
            statistics = ObservationStatistics(
                _counted(document, "observations"), arrays["statistics.total"], arrays["statistics.squares"]
            )
        for name, shape in expected.items():
            if arrays[name].shape != shape:
                raise CheckpointError(f"{name} has shape {shown(arrays[name].shape)}, its policy needs {shown(shape)}")
            dtype = np.float64 if name.startswith("statistics.") else np.float32
            if arrays[name].dtype != dtype:
                raise CheckpointError(f"{name} has type {arrays[name].dtype}, expected {np.dtype(dtype)}")
        _require_numbers(document["strategy"], arrays)
        if isinstance(statistics, ObservationStatistics):  # no observations have sums that overflow
            statistics.normalization(std_floor=config.observation_std_floor, clip=config.observation_clip)
        prefix = "strategy."
        state = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        unknown = [name for name in arrays if name not in expected and not name.startswith(prefix)]
        if unknown:
            raise CheckpointError(f"it has arrays that no checkpoint has: {shown(unknown)}")
        return cls(
            config=config,
            generation=_counted(document, "generation"),
            mean=mean,
            strategy={**document["strategy"], **state},
            statistics=statistics,
            observation_space=observation_space,
            action_space=action_space,
            progress=dict(document["progress"]),
            leader=leader,
        )

    def policy(self) -> Policy:
        """Make its ``Policy``; a user's module is imported.

        Raises:
            ValueError: the policy is a module outside the installed plugins, and the checkpoint is not trusted.
            CheckpointError: the policy's module has changed.
        """
        if not self.trusted:
            require_trusted_policy(self.config, where=self.where)
        policy = make_policy(self.config, self.observation_space, self.action_space)
        if policy.size != self.mean.size:
            raise CheckpointError(
                f"{self.where}: policy {self.config.policy!r} has {policy.size} parameters now, but had "
                f"{self.mean.size} when it was evolved: its module has changed"
            )
        return policy

    def actor(self) -> Actor:
        """Make the policy's actor, which needs no environment, and torch only for a user's module.

        It takes observations as ``es_core.preprocessed(env, config.preprocessing)`` returns them.

        Raises:
            ValueError, CheckpointError: see ``policy``.
        """
        return make_actor(self.policy(), self.mean, self.statistics)

    def module(self) -> "torch.nn.Module":
        """Make a torch module: flattened observations ``(batch, n)`` to the raw outputs that decide an action.

        A recurrent policy's module takes the state that the last call returned, too (None at an episode's start), and
        returns raw outputs and state.

        Raises:
            ValueError, CheckpointError: see ``policy``.
        """
        return self.policy().module(self.mean, self.statistics)


def _parts(checkpoint: Checkpoint) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What a file says of one contender, as JSON and as arrays."""
    arrays: dict[str, NDArray[Any]] = {"mean": checkpoint.mean}
    numbers = {}
    for name, value in checkpoint.strategy.items():
        if isinstance(value, np.ndarray):
            arrays[f"strategy.{name}"] = value
        else:
            numbers[name] = value
    observations = None
    if isinstance(checkpoint.statistics, ObservationStatistics):
        arrays["statistics.total"], arrays["statistics.squares"] = (
            checkpoint.statistics.total,
            checkpoint.statistics.squares,
        )
        observations = checkpoint.statistics.count
    elif checkpoint.statistics is not None:
        arrays["reference"] = checkpoint.statistics.observations
    return {
        "config": checkpoint.config.to_json(),
        "generation": checkpoint.generation,
        "strategy": numbers,
        "observations": observations,
        "progress": dict(checkpoint.progress),
    }, arrays


def parameter_hash(mean: NDArray[np.float32]) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of the bytes of ``mean``."""
    return hashlib.sha256(np.ascontiguousarray(mean).tobytes()).hexdigest()[:16]


def _digest(array: NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def _json_digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _verified(text: str, arrays: Mapping[str, NDArray[Any]]) -> Mapping[str, Any]:
    outer = parse_json(text.encode())
    document: Mapping[str, Any] = outer["document"]
    version = document.get("format")
    if whole(FORMAT + 1)(version) is None:
        raise CheckpointError(
            f"a newer version of es-envs wrote it (format {shown(version)}, this one reads {FORMAT}): upgrade with "
            "`pip install --upgrade es-envs`"
        )
    if version != FORMAT:
        raise CheckpointError(f"format {shown(version)} is not the {FORMAT} that this version of es-envs reads")
    if outer["sha256"] != _json_digest(document):
        raise CheckpointError("damaged: the checksum of its description does not match")
    if document["tensors"] != {name: _digest(array) for name, array in arrays.items()}:
        raise CheckpointError("damaged: the checksum of its arrays does not match")
    return document


def _require_numbers(numbers: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    for name, value in numbers.items():
        if not isinstance(value, bool) and finite(value):
            raise CheckpointError(f"{shown(name)} of the strategy is {shown(value)}, expected a number")
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise CheckpointError(f"{name} has type {array.dtype}, expected numbers")
        if not np.isfinite(array).all():
            raise CheckpointError(f"{name} has entries that are not finite")


def _counted(document: Mapping[str, Any], name: str) -> int:
    value: int = document[name]
    expected = whole(0, 2**63 - 1)(value)
    if expected:
        raise CheckpointError(f"{name} is {shown(value)}, expected {expected}")
    return value
