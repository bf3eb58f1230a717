"""Policies on film: the policies that a film shows."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from es_core.config.choices import SCRIPTED
from es_core.evaluation.scoring import Source, find_checkpoint, find_policy, population_of
from es_core.files import CheckpointError
from es_core.policies.normalization import Statistics
from es_core.runs.checkpoint import Checkpoint
from es_core.runs.repertoire import Repertoire, cell_text
from es_core.runs.run_folder import RunFolder
from es_core.video.options import FilmOptions
from es_envs import EnvDefinition

Found = tuple[Checkpoint, EnvDefinition]


@dataclass(frozen=True, kw_only=True, eq=False)
class FilmedPolicy:
    """A policy that plays in a film.

    Attributes:
        generation: its generation.
        candidate: its index in that generation's population; None: the centre.
        parameters: ``(d,)``.
        statistics: statistics that normalise its observations or hidden layers, or None.
        script: name of a scripted policy, which has no generation.
        source: which of the film's sources it is from, counted from 0.
        name: name of that source, if there are several, or of its cell in a repertoire.
    """

    generation: int
    candidate: int | None
    parameters: NDArray[np.float32]
    statistics: Statistics | None
    script: str | None = None
    source: int = 0
    name: str | None = None

    @property
    def title(self) -> str:
        """Title for a caption."""
        return title_of(name=self.name, script=self.script, generation=self.generation, candidate=self.candidate)


def title_of(*, name: str | None, script: str | None, generation: int, candidate: int | None, **_: object) -> str:
    """Title of a policy with these attributes; others do not matter."""
    generations = f"generation {generation}" + ("" if candidate is None else f", candidate {candidate}")
    return name or script or generations


_LEVELS = (0.2, 0.4, 0.6, 0.8)  # of the way from the first fitness to the best, which an evolution shows between them


def representative_generations(run: RunFolder, among: Iterable[int]) -> list[int]:
    """Choose a few generations that show a run's progress: the first, the best, and the first past each of some levels.

    Args:
        run: the run, whose evaluated centres are compared, or populations' means if fewer than two were evaluated.
        among: generations to choose from, ascending.
    """
    among = list(among)
    stats = [run.history[generation] for generation in among if generation < len(run.history)]
    evaluated = {each.generation: each.evaluation.mean for each in stats if each.evaluation}
    populations = {each.generation: each.fitness_mean for each in stats if each.fitness_mean is not None}
    known = evaluated if len(evaluated) > 1 else populations
    if not known:
        return among[-1:]
    first, best = min(known), max(known, key=lambda generation: (known[generation], -generation))
    if best == first:
        return sorted({first, max(known)})
    levels = [known[first] + level * (known[best] - known[first]) for level in _LEVELS]
    passed = [next(generation for generation, value in known.items() if value >= level) for level in levels]
    return sorted({first, *passed, best} & set(range(first, best + 1)))


def filmed_policies(
    source: Source, options: FilmOptions
) -> tuple[list[tuple[FilmedPolicy, ...]], list[Checkpoint], EnvDefinition]:
    """Find the policies of each clip of a film; a checkpoint of each source; and the definition of their environment.

    Args:
        source: see ``record``.
        options: the film's options.

    Raises:
        ValueError: options do not fit together, or a name is not trusted.
        FileNotFoundError: there is no such run, checkpoint or generation.
        CheckpointError: a checkpoint is damaged.
    """
    find: Callable[..., Found] = partial(find_policy, env_kwargs=options.env_kwargs, trust=options.trust)
    if options.others:
        return _of_several_sources(source, options, find)
    if options.gallery is not None:
        return _of_repertoire(source, options)
    if options.generations is None:
        found = [find(source, generation=options.generation, candidate=options.candidate, cell=options.cell)]
    else:
        found = _of_generations(source, options, find)
    if options.population is not None or (options.together and options.generations is None):
        groups = [_population(checkpoint, options.candidates) for checkpoint, _ in found]
    else:
        groups = [[policy_of(checkpoint, options.candidate, options.cell) for checkpoint, _ in found]]
    checkpoint, definition = found[-1]
    if options.together is None:
        groups = [[policy] for group in groups for policy in group]
    return [tuple(group) for group in groups], [checkpoint], definition


def _of_repertoire(
    source: Source, options: FilmOptions
) -> tuple[list[tuple[FilmedPolicy, ...]], list[Checkpoint], EnvDefinition]:
    """The one clip of a film with ``gallery``."""
    checkpoint = find_checkpoint(source, generation=options.generation, trust=options.trust, latest=True)
    checkpoint, definition = find_policy(
        checkpoint, generation=None, env_kwargs=options.env_kwargs, trust=checkpoint.trusted
    )
    repertoire = Repertoire.of(checkpoint)
    rows, columns = map(int, (options.gallery or "").split("x"))
    chosen = repertoire.gallery(rows, columns)
    if not chosen:
        raise ValueError(f"{checkpoint.where}: its repertoire is empty, since no generation has ended yet")
    policies = [
        replace(policy_of(checkpoint, cell=repertoire.cells[row]), parameters=repertoire.parameters[row])
        for row in chosen
    ]
    return [tuple(policies)], [checkpoint], definition


def _of_several_sources(
    source: Source, options: FilmOptions, find: Callable[..., Found]
) -> tuple[list[tuple[FilmedPolicy, ...]], list[Checkpoint], EnvDefinition]:
    """The one clip of a film with ``compare``."""
    checkpoint, definition = find(source, generation=options.generation, candidate=options.candidate)
    checkpoints = [checkpoint, *(find(each, generation=None)[0] for each in options.others)]
    _require_one_world(checkpoints)
    policies = [policy_of(checkpoint, options.candidate), *map(policy_of, checkpoints[1:])]
    named = enumerate(zip(policies, _names([source, *options.others], policies), strict=True))
    return [tuple(replace(each, source=k, name=name) for k, (each, name) in named)], checkpoints, definition


def _of_generations(source: Source, options: FilmOptions, find: Callable[..., Found]) -> list[Found]:
    """The checkpoints of ``generations``."""
    run = run_of(
        source, trust=options.trust, otherwise="generations can be chosen from a run, not from a single checkpoint"
    )
    if not isinstance(options.generations, str):
        return [find(run, generation=each) for each in options.generations or ()]
    chosen = representative_generations(run, range(max(1, len(run.history))))
    with suppress(CheckpointError):  # of another kind of processor, say: the kept checkpoints can still be shown
        return [find(run, generation=generation) for generation in chosen]
    kept = representative_generations(run, run.checkpoint_generations())
    return [find(run, generation=generation) for generation in kept]


def _require_one_world(checkpoints: Sequence[Checkpoint]) -> None:
    """Refuse policies that cannot play the same start side by side.

    Raises:
        ValueError: they do not.
    """
    first = checkpoints[0].config
    for other in (checkpoint.config for checkpoint in checkpoints[1:]):
        for what, here, there in (
            ("environment", first.env_id, other.env_id),
            ("env_kwargs", first.env_kwargs, other.env_kwargs),
            ("randomize", *(config.keyword_arguments.get("randomize", {}) for config in (first, other))),
            ("frame skip", first.preprocessing.get("skip", 1), other.preprocessing.get("skip", 1)),
        ):
            if here != there:
                raise ValueError(f"policies play side by side in one world, and their {what} is {here} and {there}")


def _names(sources: Sequence[Source], policies: Sequence[FilmedPolicy]) -> list[str]:
    """Names of sources, with that of the folder above where two are alike; a script's own where there is no folder."""
    paths = [
        None if isinstance(each, Checkpoint) else each.directory if isinstance(each, RunFolder) else Path(each)
        for each in sources
    ]
    stems = [
        policy.script or f"policy {k}" if path is None else path.resolve().stem
        for k, (path, policy) in enumerate(zip(paths, policies, strict=True), 1)
    ]
    return [
        stem if path is None or stems.count(stem) == 1 else f"{path.resolve().parent.name}/{stem}"
        for path, stem in zip(paths, stems, strict=True)
    ]


def run_of(source: Source, *, trust: bool, otherwise: str) -> RunFolder:
    """The run that a source names.

    Raises:
        ValueError: it is a single checkpoint; the message is ``otherwise``.
        FileNotFoundError: there is no such run.
    """
    if isinstance(source, RunFolder):
        return source
    if isinstance(source, Checkpoint) or Path(source).is_file():
        raise ValueError(otherwise)
    return RunFolder.open(source, trust=trust)


def _population(checkpoint: Checkpoint, most: int | None) -> list[FilmedPolicy]:
    """The first ``most`` candidates around a checkpoint's centre, or all."""
    candidates = population_of(checkpoint)
    number = len(candidates) if most is None else min(most, len(candidates))
    own = policy_of(checkpoint)
    return [replace(own, candidate=k, parameters=candidates.candidate(k)) for k in range(number)]


def policy_of(checkpoint: Checkpoint, candidate: int | None = None, cell: Sequence[int] | None = None) -> FilmedPolicy:
    """Return a checkpoint's policy for a film; ``candidate`` and ``cell`` say whose it is."""
    name = checkpoint.config.policy
    return FilmedPolicy(
        generation=checkpoint.generation,
        candidate=candidate,
        name=None if cell is None else f"cell {cell_text(cell)}",
        parameters=checkpoint.mean,
        statistics=checkpoint.statistics,
        script=name.removeprefix(SCRIPTED) if name.startswith(SCRIPTED) else None,
    )
