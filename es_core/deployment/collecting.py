"""Datasets: episodes of a policy, or of a whole population, as a Minari dataset for imitation and offline learning."""

import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector.utils import concatenate, create_empty_array

from es_core.config.budgets import step_limit
from es_core.config.checks import require_positive
from es_core.deployment.recorded_episodes import Step, recorded_episode
from es_core.evaluation.scoring import Source, find_policy, population_of, require_same_spaces
from es_core.files import naming_errors
from es_core.rollout.rollout import Rollout
from es_core.runs.checkpoint import Checkpoint
from es_core.runs.unfinished import working_folder
from es_core.seeding import Purpose, episode_seeds
from es_core.training.progress import count_progress
from es_envs import Episode, interruption, registry

_TOGETHER = 20  # episodes that are held in memory before they are written


@dataclass(frozen=True, kw_only=True)
class Collected:
    """A dataset that was written.

    Attributes:
        path: its folder.
        dataset_id: its name, for ``minari.load_dataset``, where MINARI_DATASETS_PATH is the folder above.
        episodes: number of episodes.
        steps: number of their steps.
        mean_fitness: mean of their fitness.
    """

    path: Path
    dataset_id: str
    episodes: int
    steps: int
    mean_fitness: float


def collect(
    source: Source,
    folder: str | os.PathLike[str],
    *,
    episodes: int = 100,
    seed: int = 0,
    generation: int | None = None,
    population: bool = False,
    dataset_id: str | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    trust: bool = False,
    progress: bool = False,
) -> Collected:
    """Write episodes of a policy as a Minari dataset: observations, actions, rewards and ends of all steps.

    With ``minari.load_dataset`` any library for imitation or offline learning reads it. Each episode's metadata holds
    its seed, its fitness, and who played it. Observations are those that the policy saw, after ``preprocessing`` and
    before normalisation; infos are left out. One process plays.

    Args:
        source: see ``evaluate``.
        folder: folder of datasets; a new one in it is named after the environment and the generation.
        episodes: number of episodes, for each candidate.
        seed: seed of the starts: episode k is the one that ``evaluate(seed=seed)`` scores.
        generation: see ``evaluate``.
        population: let all candidates around that centre play, instead of the centre.
        dataset_id: name of the dataset, such as "car/good-v0"; None: such as "RaceCar-generation-12-v0".
        env_kwargs: see ``evaluate``.
        trust: allow the source to name modules outside the installed plugins.
        progress: show a progress bar, if there is a terminal.

    Raises:
        ValueError: episodes is not positive, the dataset's name is none, or a name is not trusted.
        FileExistsError: there is such a dataset, or another process is writing it.
        FileNotFoundError, CheckpointError: see ``evaluate``.
        RolloutError: an episode failed; no dataset is left.
        ImportError: Minari is not installed.
    """
    require_positive("episodes", episodes)
    minari = _minari()
    checkpoint, definition = find_policy(source, generation=generation, env_kwargs=env_kwargs, trust=trust)
    name = dataset_id or _name(checkpoint, population=population)
    if not re.fullmatch(r"([\w-]+/)*[\w-]+-v\d+", name):
        raise ValueError(f"dataset_id must be NAME-vNUMBER, with or without folders before it, got {name!r}")
    folder = Path(folder)
    path = folder / name
    if path.exists():
        raise FileExistsError(f"{path} exists: choose another folder, or another name (dataset_id)")
    candidates = [checkpoint.mean]
    if population:
        drawn = population_of(checkpoint)
        candidates = [drawn.candidate(k) for k in range(len(drawn))]
    starts = episode_seeds(seed, Purpose.TEST, episodes)
    with (
        _folder_made(path.parent),
        closing(Rollout(definition, checkpoint.config)) as rollout,
        count_progress(shown=progress) as bar,
        working_folder(path) as unfinished,
        _datasets_in(unfinished),
    ):
        require_same_spaces(checkpoint, rollout.env)
        dataset: Any = None
        metadata: list[dict[str, Any]] = []
        plays = list(product(range(len(candidates)), starts))
        task = bar.add_task("episodes", total=len(plays))
        for first in range(0, len(plays), _TOGETHER):
            buffers = []
            for number, start in plays[first : first + _TOGETHER]:
                interruption.check()
                rollout.use(candidates[number], checkpoint.statistics)
                recorded, episode = recorded_episode(rollout, start, definition.label)
                buffers.append(_buffer(minari, recorded, episode, rollout.env))
                candidate = {"candidate": number} if population else {}
                metadata.append({"fitness": episode.fitness, "generation": checkpoint.generation, **candidate})
                bar.advance(task)
            dataset = _write_dataset(minari, dataset, name, buffers, checkpoint, rollout.env)
        dataset.storage.update_episode_metadata(metadata)
        steps = int(dataset.total_steps)
        (unfinished / name).rename(path)
    return Collected(
        path=path,
        dataset_id=name,
        episodes=len(metadata),
        steps=steps,
        mean_fitness=float(np.mean([each["fitness"] for each in metadata])),
    )


@contextmanager
def _folder_made(folder: Path) -> Iterator[None]:
    """Make a folder, and afterwards remove what was made and is empty."""
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    with naming_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):
            for each in made:
                each.rmdir()


def _minari() -> Any:
    try:
        import h5py  # noqa: F401  (Minari imports it when it writes)
        import minari
    except ImportError as error:
        raise ImportError(f"datasets need Minari: pip install 'es-envs[minari]' ({error})") from error
    return minari


def _name(checkpoint: Checkpoint, *, population: bool) -> str:
    env = re.sub(r"[^A-Za-z0-9]+", "-", re.sub(r"-v\d+$", "", checkpoint.config.env_id)).strip("-")
    return f"{env}-{'population' if population else 'generation'}-{checkpoint.generation}-v0"


@contextmanager
def _datasets_in(folder: Path) -> Iterator[None]:
    """Let Minari write into a folder: it has no argument for that."""
    name = "MINARI_DATASETS_PATH"
    before = os.environ.get(name)
    os.environ[name] = str(folder.resolve())  # a relative one it joins twice
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _buffer(minari: Any, steps: Sequence[Step], episode: Episode, env: gymnasium.Env[Any, Any]) -> Any:
    observations, actions, rewards, _ = zip(*steps, strict=True)
    last = np.arange(episode.length) == episode.length - 1
    return minari.data_collector.EpisodeBuffer(
        seed=episode.seed,
        observations=_stacked(env.observation_space, [episode.first_observation, *observations]),
        actions=_stacked(env.action_space, actions),
        rewards=np.array(rewards),
        terminations=last & episode.terminated,
        truncations=last & episode.truncated,
    )


def _stacked(space: gymnasium.Space[Any], items: Sequence[Any]) -> Any:
    empty: Any = create_empty_array(space, len(items))
    return concatenate(space, items, empty)


def _write_dataset(
    minari: Any, dataset: Any, name: str, buffers: list[Any], checkpoint: Checkpoint, env: gymnasium.Env[Any, Any]
) -> Any:
    """The dataset with more episodes, a new one if there is none yet."""
    if dataset is not None:
        dataset.update_dataset_from_buffer(buffers)
        return dataset
    config, described = checkpoint.config, None
    if (spec := _spec(checkpoint)) is not None:
        described = gymnasium.Env[Any, Any]()  # of a spec alone, Minari makes an environment, and never closes it
        described.spec = spec
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about authors and links, which we do not know
        return minari.create_dataset_from_buffers(
            name,
            buffers,
            env=described,
            observation_space=env.observation_space,
            action_space=env.action_space,
            algorithm_name=f"{config.strategy} of es-envs {version('es-envs')}",
            description=f"Policy of generation {checkpoint.generation} in {config.env_id} {dict(config.env_kwargs)}, "
            f"preprocessing {dict(config.preprocessing)}, parameter hash {checkpoint.parameter_hash}, selected by "
            f"fitness {config.fitness!r}",
            jpeg_encoding=False,  # which loses some of a picture
        )


def _spec(checkpoint: Checkpoint) -> EnvSpec | None:
    """Gymnasium's spec of the environment, for ``recover_environment``; None for one that a script defines."""
    config = checkpoint.config
    if registry.is_local(config.env_id):
        return None
    if config.env_id in gymnasium.registry:
        spec = deepcopy(gymnasium.spec(config.env_id))
        spec.kwargs.update(config.keyword_arguments)
    else:
        spec = registry.spec(registry.definition(config.env_id), config.keyword_arguments)
    # A limit counts the policy's steps, of which one may be several of the environment's.
    limit = step_limit(registry.definition(config.env_id), config)
    spec.max_episode_steps = limit * config.preprocessing.get("skip", 1)
    return spec
