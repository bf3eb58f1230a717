"""Adapting: which policy of a repertoire works best in a changed environment, found in a few trials.

Intelligent Trial and Error (Cully, Clune, Tarapore and Mouret 2015, "Robots that can adapt like animals", Nature 521,
arXiv 1407.3501): Bayesian optimisation over the cells of a map, with the map's fitness as the prior mean.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_core.config.checks import require, require_positive, whole
from es_core.evaluation.scoring import Source, find_policy, require_same_spaces
from es_core.formatting import counted, figures, html_table, percent
from es_core.pools.local import LocalPool
from es_core.pools.options import PoolOptions
from es_core.runs.repertoire import Repertoire, cell_text
from es_core.seeding import Purpose, episode_seeds
from es_core.strategies.quality_diversity import RIBS
from es_core.training.progress import count_progress, prepare_policy

# The paper's numbers. Its behaviours are six numbers from 0 to 1; of fewer, policies lie nearer to each other by the
# root of their number. Its fitness is a speed [m/s]; here that may have any scale, so what the paper has in m/s is in
# standard deviations of the map's fitness.
_LENGTH = 0.4  # of the kernel: how far in behaviour a trial tells about others
_NUMBERS = 6  # of a behaviour, to which the length belongs
_NOISE = 0.001  # variance of a trial's noise, to which that of its episodes is added where there are several
_CAUTION = 0.05  # standard deviations of a prediction that are added to it (kappa of the upper confidence bound)
_GAP = 0.1  # to the best that is predicted, as a share of it, within which a policy is good enough


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One policy's trial in the changed environment.

    Attributes:
        cell: the policy's cell.
        intact: fitness with which the run found it.
        predicted: mean of its fitness that was expected before the trial.
        uncertainty: standard deviation of that prediction.
        fitness: mean fitness of the trial's episodes.
    """

    cell: tuple[int, ...]
    intact: float
    predicted: float
    uncertainty: float
    fitness: float


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """Trials of a repertoire's policies in a changed environment, and the best cell.

    The first trial is the policy that was best in the unchanged environment.

    Attributes:
        trials: in the order in which they were made.
        stopped: True if the best cell was within 10 % of the best prediction; False if there were no trials left.
        expected: the best prediction after the last trial.
        env_kwargs: keyword arguments of the environment that are others than in training.
        episodes: episodes of each trial.
        steps: environment steps of all trials.
    """

    trials: tuple[Trial, ...]
    stopped: bool
    expected: float
    env_kwargs: Mapping[str, Any]
    episodes: int
    steps: int

    @property
    def cell(self) -> tuple[int, ...]:
        """The cell with the highest fitness; luck is still a part of it."""
        return _best(self.trials)[0]

    @property
    def fitness(self) -> float:
        """Mean fitness of that cell's trials."""
        return _best(self.trials)[1]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON, and ``cell`` and ``fitness``."""
        return {**asdict(self), "cell": self.cell, "fitness": self.fitness}

    def table(self) -> list[list[str]]:
        """The trials as rows of texts, below their heads."""
        heads = ["trial", "cell", "intact", "predicted", "fitness", ""]
        rows = [
            [
                str(number),
                cell_text(trial.cell),
                figures(trial.intact),
                f"{figures(trial.predicted)} ± {figures(trial.uncertainty)}",
                figures(trial.fitness),
                "best" if trial.cell == self.cell else "",
            ]
            for number, trial in enumerate(self.trials, 1)
        ]
        return [heads, *rows]

    def __str__(self) -> str:
        first = self.trials[0]
        why = f"within {percent(_GAP)} of the best prediction" if self.stopped else "no trials are left; predicted"
        return (
            f"cell {cell_text(self.cell)}: {figures(self.fitness)} after {counted(len(self.trials), 'trial')} ({why}, "
            f"{figures(self.expected)}); cell {cell_text(first.cell)}, the best one intact: {figures(first.fitness)}"
        )

    def _repr_html_(self) -> str:
        """For a notebook: the trials, and what they say."""
        return f"{html_table(*self.table())}<p>{self}</p>"


def adapt(
    source: Source,
    *,
    env_kwargs: Mapping[str, Any],
    trials: int = 20,
    episodes: int = 5,
    seed: int = 0,
    generation: int | None = None,
    workers: int | None = None,
    trust: bool = False,
    progress: bool = False,
) -> Adaptation:
    """Find a policy of a repertoire that works in a changed environment, such as a robot that is damaged.

    Each trial plays the policy whose predicted fitness plus a little of its uncertainty is highest. A Gaussian process
    over the cells' behaviours predicts: what a trial tells about one policy, it tells about those that behave alike,
    too, and far from all trials the fitness of the map counts. It ends as soon as a policy is within 10 % of the best
    that is still predicted. Equal arguments make equal trials, with any number of workers. (A real robot would make
    each trial once, ``episodes=1``; here starts differ, and a single one says little.)

    Args:
        source: a Run or its folder (its latest repertoire), a checkpoint file of a run, or a Checkpoint.
        env_kwargs: keyword arguments of the environment that are others than in training, such as
            ``{"faults": {"locked": ["FR_upper_joint"]}}`` for a ``RobotEnv``.
        trials: number of trials, at most.
        episodes: episodes of each trial, whose mean fitness counts.
        seed: seed of the starts, which neither training nor ``evaluate`` has.
        generation: take a Run's repertoire of this generation instead.
        workers: number of processes; None: the usable cores, at most one for each episode of a trial.
        trust: allow the source to name modules outside the installed plugins.
        progress: show a progress bar, if there is a terminal.

    Raises:
        ValueError: the source has no repertoire, or one with a single policy, a number is not positive, the environment
            has other spaces with these arguments, or a name is not trusted.
        FileNotFoundError: there is no such run, checkpoint or generation.
        CheckpointError: the checkpoint or the log is damaged.
        RolloutError: an episode failed.
        ImportError: scikit-learn is not installed, which comes with the extra ``qd``.
    """
    require_positive("trials", trials)
    require_positive("episodes", episodes)
    require("seed", seed, whole(0))
    checkpoint, definition = find_policy(source, generation=generation, env_kwargs=env_kwargs, latest=True, trust=trust)
    repertoire = Repertoire.of(checkpoint)
    if len(repertoire) < 2:
        raise ValueError(
            f"{checkpoint.where}: to adapt is to choose, and {len(repertoire)} of its cells is filled: train it longer"
        )
    predict = _Prediction(repertoire)
    prepare_policy(checkpoint.config, definition, shown=progress)
    made: list[Trial] = []
    rows: list[int] = []
    variances: list[float] = []
    steps = 0
    with (
        LocalPool(definition, checkpoint.config, PoolOptions(workers=workers), most=episodes) as pool,
        count_progress(shown=progress) as bar,
    ):
        require_same_spaces(checkpoint, pool)
        task = bar.add_task("trials", total=trials)
        mean, deviation = repertoire.fitness, np.full(len(repertoire), predict.unit)
        stopped, expected = False, math.nan
        while not stopped and len(made) < trials:
            row = int(np.argmax(mean + _CAUTION * deviation))
            starts = episode_seeds(seed, Purpose.TRIAL, episodes, len(made))
            who = f"cell {cell_text(repertoire.cells[row])}"
            played = pool.rollouts(repertoire.parameters[row], checkpoint.statistics, starts, who=who)
            steps += sum(episode.length for episode in played)
            fitness = np.array([episode.fitness for episode in played])
            rows.append(row)
            variances.append(float(fitness.var(ddof=1)) if episodes > 1 else 0.0)
            made.append(
                Trial(
                    cell=tuple(repertoire.cells[row].tolist()),
                    intact=float(repertoire.fitness[row]),
                    predicted=float(mean[row]),
                    uncertainty=float(deviation[row]),
                    fitness=float(fitness.mean()),
                )
            )
            noise = float(np.mean(variances)) / episodes
            mean, deviation = predict(rows, [trial.fitness for trial in made], noise)
            expected = float(mean.max())
            stopped = _best(made)[1] >= expected - _GAP * abs(expected)
            bar.update(task, completed=len(made))
    return Adaptation(
        trials=tuple(made),
        stopped=stopped,
        expected=expected,
        env_kwargs=dict(env_kwargs),
        episodes=episodes,
        steps=steps,
    )


def _best(trials: Sequence[Trial]) -> tuple[tuple[int, ...], float]:
    """The cell whose trials have the highest mean fitness, and that: a cell may be tried again, from other starts."""
    by_cell: dict[tuple[int, ...], list[float]] = {}
    for trial in trials:
        by_cell.setdefault(trial.cell, []).append(trial.fitness)
    return max(((cell, float(np.mean(found))) for cell, found in by_cell.items()), key=lambda found: found[1])


class _Prediction:
    """A Gaussian process over behaviours, whose prior mean is the repertoire's fitness.

    Its kernel has fixed numbers: twenty trials are too few to learn them from.

    Attributes:
        unit: standard deviation of the repertoire's fitness, that of the prior.

    Raises:
        ImportError: scikit-learn is not installed.
    """

    def __init__(self, repertoire: Repertoire) -> None:
        # Not botorch, which would bring torch, gpytorch and pyro: ribs has brought this one already.
        try:
            import sklearn.gaussian_process as gaussian
        except ImportError as error:
            raise ImportError(f"to adapt needs scikit-learn, which comes with {RIBS} ({error})") from error
        length = _LENGTH * math.sqrt(len(repertoire.names) / _NUMBERS)
        kernel = gaussian.kernels.Matern(length_scale=length, nu=2.5)
        self._process = gaussian.GaussianProcessRegressor(kernel, optimizer=None)
        self._places = repertoire.shares
        self._prior = repertoire.fitness
        self.unit = float(repertoire.fitness.std()) or 1.0

    def __call__(
        self, rows: Sequence[int], fitness: Sequence[float], noise: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation ``(n,)`` of each policy's fitness, after trials of these rows.

        Args:
            rows: ``(t,)``, the policies that were tried.
            fitness: ``(t,)``, theirs.
            noise: variance of each of these.
        """
        self._process.set_params(alpha=_NOISE + noise / self.unit**2)
        self._process.fit(self._places[rows], (np.array(fitness) - self._prior[rows]) / self.unit)
        mean, deviation = self._process.predict(self._places, return_std=True)
        return self._prior + self.unit * mean, self.unit * deviation
