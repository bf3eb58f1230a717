"""Export: a policy as an ONNX file, which runs where es-envs is not installed, and acts like the policy.

The file includes normalisation, memory and the decoding of raw outputs to actions, but not the preprocessing of images.
Before a file gets its name, its actions are compared with the policy's.
"""

import importlib.util
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from es_core.config.budgets import step_limit
from es_core.deployment.recorded_episodes import recorded_episode
from es_core.evaluation.scoring import Source, find_policy, require_same_spaces
from es_core.files import require_folder, write_whole
from es_core.rollout.rollout import Rollout
from es_core.runs.checkpoint import Checkpoint
from es_core.runs.run_folder import RunFolder
from es_core.seeding import Purpose, episode_seeds
from es_envs import EnvDefinition
from es_envs.masks import KEY, allowed
from es_envs.spaces import parts

if TYPE_CHECKING:
    from es_core.policies.deployed import Deployed

Arrays = Sequence[NDArray[Any]]
Function = Callable[[Arrays], Arrays]

_PACKAGES = ("torch", "onnxscript", "onnxruntime")  # that write ONNX files, and run them
_EPISODES, _STEPS = 4, 200  # of the comparison, at most
# Relative to the largest raw output, or to 1: rounding in float32 stays far below, a wrong layer does not.
_TOLERANCE = 1e-4


@dataclass(frozen=True, kw_only=True)
class Exported:
    """An exported file, and its comparison with the policy on observations of its environment.

    Attributes:
        path: the file's path.
        observations: number of actions that were compared.
        largest_difference: largest difference between entries of two actions for the same observation.
        near_ties: number of entries that were left out, since the outputs of two choices differ only by rounding.
    """

    path: Path
    observations: int
    largest_difference: float
    near_ties: int


class ExportError(RuntimeError):
    """A policy cannot be exported, or its file would act differently; the message says why."""


def export(
    source: Source,
    path: str | os.PathLike[str],
    *,
    generation: int | None = None,
    cell: Sequence[int] | None = None,
    seed: int = 0,
    trust: bool = False,
) -> Exported:
    """Write a policy as an ONNX file for other programs.

    The file maps a batch of observations, as the environment returns them after the config's ``preprocessing``, to a
    batch of actions as the environment takes them; a recurrent policy's file maps observations and states (zero when an
    episode begins) to actions and the next states. Actions are those of ``evaluate``, without noise.

    Args:
        source: see ``evaluate``.
        path: path of the file, ending in .onnx.
        generation: export a Run's centre of this generation instead of the best.
        cell: export the policy of this cell of a repertoire instead; see ``evaluate``.
        seed: seed of the episodes in which file and policy are compared.
        trust: allow the source to name modules outside the installed plugins.

    Raises:
        ValueError: the path does not end in .onnx, or a name is not trusted.
        FileNotFoundError: there is no such run or checkpoint, or no such folder for the file.
        ImportError: a package that writes or runs ONNX files is missing.
        ExportError: torch cannot export a user's module, or the file would act differently from the policy.
        RolloutError: an episode of the comparison failed.
        OSError: the file cannot be written.
    """
    path = Path(path)
    if path.suffix != ".onnx":
        raise ValueError(f"the name of an exported policy must end in .onnx, got {path.name!r}")
    for package in _PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise ImportError(f".onnx files need {package}, which is not installed: pip install 'es-envs[export]'")
    require_folder(path, "file")
    if isinstance(source, str | os.PathLike) and Path(source).is_dir():
        source = RunFolder.open(source, trust=trust)
    checkpoint, definition = find_policy(source, generation=generation, cell=cell, trust=trust)
    episodes = _play(checkpoint, definition, episode_seeds(seed, Purpose.TEST, _EPISODES))

    from es_core.policies.deployed import Deployed

    try:
        masked = any(mask is not None for episode in episodes for mask in episode.masks)
        deployed = Deployed(checkpoint.policy(), checkpoint.module(), masked=masked)
        with _muffled():
            content, function = _to_onnx(deployed, _metadata(source, checkpoint, definition))
    except Exception as error:
        policy = checkpoint.config.policy
        if ":" not in policy:
            raise
        cause = str(error).strip().partition("\n")[0]
        raise ExportError(f"policy {policy!r} cannot be exported: {type(error).__name__}: {cause}") from error
    exported = _compare(path, deployed, function, episodes)
    write_whole(path, content)
    return exported


def _metadata(source: Source, checkpoint: Checkpoint, definition: EnvDefinition) -> dict[str, str]:
    """Metadata of the file; mappings in JSON."""
    config = checkpoint.config
    message = {
        "es_envs_version": version("es-envs"),
        "env_id": config.env_id,
        "env_kwargs": json.dumps(config.env_kwargs),
        "preprocessing": json.dumps(config.preprocessing),
        "max_episode_steps": str(step_limit(definition, config)),
        "policy": config.policy,
        "generation": str(checkpoint.generation),
        "parameter_hash": checkpoint.parameter_hash,
        "fitness": str(config.fitness),
    }
    if isinstance(source, RunFolder) and checkpoint.generation < len(source.history):
        stats = source.history[checkpoint.generation]
        if stats.parameter_hash != checkpoint.parameter_hash:  # not its centre, of which the scores are
            return message
        best = source.best_score
        score = best[1] if best and best[0] == checkpoint.generation else stats.confirmation or stats.evaluation
        if score is not None:
            message |= {"fitness_mean": str(score.mean), "fitness_episodes": str(score.episodes)}
    return message


@dataclass(frozen=True, eq=False)
class _Played:
    """An episode: for each step the parts of the observation, and of the action that the policy took.

    ``masks`` are the choices that were allowed in each step; None: all.
    """

    observations: Sequence[Sequence[Any]]
    actions: Sequence[Sequence[Any]]
    masks: Sequence[NDArray[np.bool_] | None]


def _play(checkpoint: Checkpoint, definition: EnvDefinition, seeds: Sequence[int]) -> list[_Played]:
    played, space, is_masked = [], checkpoint.action_space, checkpoint.config.action_masks
    with closing(Rollout(definition, checkpoint.config)) as rollout:
        require_same_spaces(checkpoint, rollout.env)
        rollout.use(checkpoint.mean, checkpoint.statistics)
        for seed in seeds:
            steps, episode = recorded_episode(rollout, seed, definition.label, max_steps=_STEPS)
            seen, actions, _, masks = zip(*steps, strict=True)
            before = [episode.first_observation, *seen[:-1]]
            given = [episode.start_info.get(KEY), *masks[:-1]]
            played.append(
                _Played(
                    [parts(checkpoint.observation_space, each) for each in before],
                    [parts(space, each) for each in actions],
                    [allowed(space, each) if is_masked and each is not None else None for each in given],
                )
            )
    return played


def _compare(path: Path, deployed: "Deployed", function: Function, episodes: Sequence[_Played]) -> Exported:
    """Compare ``function`` with the policy in all episodes side by side, in a batch that shrinks as they end.

    Raises:
        ExportError: its actions are not the policy's.
    """
    observations, near_ties, largest = 0, 0, 0.0
    episodes = sorted(episodes, key=lambda episode: -len(episode.actions))
    examples = [example.numpy() for example in deployed.examples]
    kinds = examples[: len(deployed.observations)]
    states: Arrays = [example[:1].repeat(len(episodes), 0) for example in examples[len(kinds) + deployed.masked :]]
    for step in range(len(episodes[0].actions)):
        alive = [episode for episode in episodes if step < len(episode.actions)]
        columns = zip(*(episode.observations[step] for episode in alive), strict=True)
        values = [np.array(column, kind.dtype) for column, kind in zip(columns, kinds, strict=True)]
        if deployed.masked:
            everything, masks = examples[len(kinds)][0], [episode.masks[step] for episode in alive]
            values.append(np.array([everything if mask is None else mask for mask in masks]))
        values += [state[: len(alive)] for state in states]
        found = function(values)
        count = len(deployed.action.parts)
        states = found[count:]
        for part, actions in enumerate(found[:count]):
            ours = np.array([episode.actions[step][part] for episode in alive])
            if actions.shape != ours.shape:
                raise ExportError(f"{path.name} would return actions {actions.shape}, the policy returns {ours.shape}")
            difference = np.abs(actions.astype(float) - ours.astype(float)).reshape(len(alive), -1)
            if not difference.max(initial=0) <= _TOLERANCE:  # or not a number
                tolerance, margin = _limits(deployed, values, part)
                tied = (difference > tolerance) & (margin <= 2 * tolerance)
                difference[tied] = 0
                near_ties += int(tied.sum())
                if not (difference <= tolerance).all():
                    row = int((difference / tolerance).max(1).argmax())
                    raise ExportError(
                        f"{path.name} would act differently from the policy: in step {step} of an episode it takes "
                        f"{actions[row]}, the policy {ours[row]}; nothing is written"
                    )
            largest = max(largest, float(difference.max(initial=0)))
        observations += len(alive)
    return Exported(path=path, observations=observations, largest_difference=largest, near_ties=near_ties)


def _limits(deployed: "Deployed", values: Arrays, part: int) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Tolerance of a part of the action to rounding, for each entry or all, and its distance from other actions."""
    import torch

    with torch.inference_mode():
        raw, *_ = deployed.decide(*map(torch.from_numpy, values))
        margin = deployed.action.margins(raw)[part].numpy()
    # Of outputs from -1 to 1 to the bounds of the actions.
    stretch = getattr(deployed.action.parts[part], "stretch", torch.ones(1))
    largest = raw[raw.isfinite()].abs().max().item()  # others are masked
    return _TOLERANCE * max(1.0, largest) * np.maximum(stretch.numpy(), 1), margin


def _to_onnx(deployed: "Deployed", metadata: Mapping[str, str]) -> tuple[bytes, Function]:
    """The content of the policy's file, and the function that a runtime makes of it."""
    import onnxruntime
    import torch

    batch = torch.export.Dim("batch")
    shapes = (tuple({0: batch} for _ in deployed.examples),)  # of the one argument `*values`
    program = torch.export.export(deployed, deployed.examples, dynamic_shapes=shapes)
    for graph in program.graph_module.modules():
        for node in graph.graph.nodes:
            node.meta.pop("stack_trace", None)  # it contains folders of this machine
    made = torch.onnx.export(
        program,
        dynamo=True,
        input_names=deployed.inputs,
        output_names=deployed.outputs,
        dynamic_shapes=shapes,  # names the dimension
        external_data=False,
        verbose=False,
    )
    made.model.metadata_props.update(metadata)  # type: ignore[union-attr]
    content = made.model_proto.SerializeToString(deterministic=True)  # type: ignore[union-attr]
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def function(values: Arrays) -> Arrays:
        found: Arrays = session.run(deployed.outputs, dict(zip(deployed.inputs, values, strict=True)))
        return found

    return content, function


@contextmanager
def _muffled() -> Iterator[None]:
    """Suppress the messages of torch's exporters: deprecations, and missing parts of torchvision."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
