"""The progress of a run: a few live lines in a terminal, a live chart in a notebook, plain lines elsewhere."""

import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from html import escape
from importlib import import_module
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self, TextIO, cast

from rich.console import Console, ConsoleDimensions, Group, RenderableType
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from es_core.config.train_config import TrainConfig
from es_core.formatting import counted, duration, figures, percent, wrapped
from es_core.policies.compilation import compile_kernels, is_compiled
from es_core.pools.local import require_environment
from es_core.pools.pool import Playing, RolloutPool
from es_core.runs.course import course_picture
from es_core.runs.metrics import GenerationStats
from es_core.runs.run_folder import RunFolder
from es_core.runs.scores import Evaluation, Standing
from es_core.training.advice import Adviser
from es_envs import EnvDefinition
from es_envs.registry import plain_id
from es_envs.streams import LastingStream
from es_envs.text import printable

_LINE_EVERY = 2.0  # seconds between plain lines
_LONG = 5.0  # seconds after which a generation is shown before it ends
_REDRAWS = 2.0  # a second: each takes the main process a few milliseconds
_TEXT_WIDTH = 31  # of the numbers before a curve
_CURVE_WIDTH = 48  # at most
_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = "_.-=+*#@"


class Stderr(Console):
    """The console on stderr, where progress is shown; a terminal that goes away ends no run.

    Args:
        quiet: print nothing.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        file = None if sys.stderr is None else cast("TextIO", LastingStream(sys.stderr))
        super().__init__(file=file, stderr=True, quiet=quiet, force_jupyter=False)

    @property
    def size(self) -> ConsoleDimensions:
        """Its columns and lines: those of Python's stderr, which descriptor 2 is not meanwhile (``stderr_apart``)."""
        found = super().size
        if self.is_dumb_terminal or {"COLUMNS", "LINES"} & os.environ.keys():
            return found
        with suppress(OSError, ValueError, AttributeError):
            columns, lines = os.get_terminal_size(self.file.fileno())
            return ConsoleDimensions(columns or found.width, lines or found.height)
        return found

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        Console.size.fset(self, new_size)  # type: ignore[attr-defined]


def count_progress(*, shown: bool) -> Progress:
    """A bar that counts frames or episodes, where there is a terminal to show it."""
    console = Stderr()
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=not (shown and console.is_terminal))


def search_progress(*, shown: bool) -> Progress:
    """A bar for each trial, where there is a terminal to show it; its console takes lines anywhere."""
    console = Stderr(quiet=not shown)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TaskProgressColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, disable=not (shown and console.is_terminal))


def prepare_policy(config: TrainConfig, definition: EnvDefinition | None, *, shown: bool) -> None:
    """Compile a policy before workers are started, unless it is compiled, and say so.

    Args:
        config: the policy's config.
        definition: its environment, which is made first: if it cannot be, nobody waits for a compiler to hear so. None:
            the pool has another form of it.
        shown: print a message.

    Raises:
        PluginError, ValueError, RolloutError: the environment cannot be made.
    """
    if is_compiled(config):
        return
    if definition is not None:
        require_environment(definition, config)
    compile_kernels(config, partial(print_line, Stderr(quiet=not shown)))


def print_line(console: Console, text: str) -> None:
    """A line as it is, neither marked up nor with control characters; in a terminal, it is wrapped between words."""
    text = printable(text)
    shown = wrapped(text, console.width) if console.is_terminal else text
    console.print(shown, highlight=False, markup=False, soft_wrap=True)


def _notebook() -> Any:
    """IPython's display, which a notebook has."""
    return import_module("IPython.display")


class RunProgress:
    """Generation and time left, fitness of population and centre over the run, the best, steps per second, advice.

    Of a generation that takes long it shows the candidates played so far, or the episodes of the centre.

    Args:
        run: the run.
        *notes: lines to begin with.
        pool: plays its generations.
    """

    def __init__(self, run: RunFolder, *notes: str, pool: RolloutPool | None = None) -> None:
        self._run, self._notes, self._pool = run, notes, pool
        self._console = Stderr()
        self._is_live = self._console.is_terminal
        self._started, self._shown = time.monotonic(), 0.0
        self._share = self._run.share_done  # of this session's beginning
        self._adviser = Adviser(restarts=run.config.restarts)
        self._reason = ""
        self._population: list[float] = []
        self._max: float | None = None  # of the latest generation's population; the last centre has none
        self._low, self._high = math.inf, -math.inf  # of all curves
        self._centre: list[float] = []  # the latest score at each generation
        self._score: Evaluation | None = None
        self._best: tuple[Standing, float, int] | None = None
        self._final: Evaluation | None = None
        self._bests: list[float] = []  # the best so far at each generation
        for stats in run.history:
            self._take(stats)
        self._ended = Event()
        self._watcher = Thread(target=self._watch, daemon=True)
        self._live = Live(console=self._console, get_renderable=self._picture, refresh_per_second=_REDRAWS)
        self._chart: Any = None  # of a notebook, in place of lines

    def __enter__(self) -> Self:
        where = f"{plain_id(self._run.config.env_id)}: training in {self._run.directory}"
        if Console().is_jupyter:
            self._chart = _notebook().display(_notebook().HTML(self._html()), display_id=True)
            return self
        for line in (where, *self._notes):
            if line:
                print_line(self._console, line)
        (self._live if self._is_live else self._watcher).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._is_live:
            self._live.refresh()  # a notebook would keep the picture of half a second ago
            self._live.stop()
        self._redraw_chart()

    def _redraw_chart(self) -> None:
        if self._chart is not None:
            self._shown = time.monotonic()
            self._chart.update(_notebook().HTML(self._html()))

    def _html(self) -> str:
        """For a notebook: the run's course, and what a line says elsewhere."""
        notes = "".join(f'<div style="opacity: 0.7">{escape(note)}</div>' for note in self._notes if note)
        return f"{course_picture(self._run.history)}<div>{escape(self._line())}</div>{notes}"

    def _line(self) -> str:
        numbers = "; ".join(f"{name} {told}" for name, _, told in self._rows() if told)
        return "; ".join(filter(None, [f"{self._counted()}: {numbers}" if numbers else self._counted(), self._left()]))

    def show(self, stats: GenerationStats, reason: str = "") -> None:
        """Show one generation; ``reason``: why the search restarts with the next one, if it does."""
        if self._reason and stats.population_size is not None:  # else the run has ended instead
            self._say(self._reason)
        self._take(stats)
        if self._chart is not None:
            if time.monotonic() - self._shown >= 1 / _REDRAWS:
                self._redraw_chart()
        elif not self._is_live and (self._run.end is not None or time.monotonic() - self._shown >= _LINE_EVERY):
            self._shown = time.monotonic()
            self._say(self._line())
        text = self._adviser.advise(self._run.history)
        self._reason = reason
        if text and not reason:
            self._console.print(Text(f"advice: {text}", "yellow"), soft_wrap=not self._is_live)

    @property
    def _playing(self) -> Playing | None:
        return None if self._pool is None else self._pool.playing

    def _watch(self) -> None:
        """Say how far a generation is that takes long, each time that it has taken twice as long."""
        playing, due = self._playing, _LONG
        while not self._ended.wait(1.0):
            if playing is not self._playing:
                playing, due = self._playing, _LONG
            if playing is not None and playing.seconds >= due:
                due *= 2
                self._say(f"{self._counted()}: {playing.what} {_so_far(playing)}")

    def _say(self, text: str) -> None:
        print_line(self._console, text)

    def _take(self, stats: GenerationStats) -> None:
        self._max = stats.fitness_max
        if stats.fitness_mean is not None:
            self._population.append(stats.fitness_mean)
        self._score = stats.evaluation or stats.confirmation or self._score
        if self._score is not None:
            self._centre.append(self._score.mean)
        if stats.standing is not None and stats.standing.beats(self._best and self._best[0]):
            self._best = stats.standing, stats.standing.mean, stats.generation
        self._final = stats.verdict
        if self._best is not None:
            self._bests.append(self._best[1])
        latest = [*self._population[-1:], *self._centre[-1:], *self._bests[-1:]]
        self._low, self._high = min([self._low, *latest]), max([self._high, *latest])

    def _rows(self) -> Iterator[tuple[str, Sequence[float], str]]:
        """Yield what there is to say: its name, its course over the run, and in numbers."""
        playing = self._playing
        if playing is not None and playing.seconds >= _LONG:
            yield playing.what, [], _so_far(playing)
        if self._population:
            now = "" if self._max is None else f"{figures(self._population[-1])}, max {figures(self._max)}"
            yield "population", self._population, now
        if self._score is not None:
            yield "centre", self._centre, _scored(self._score)
        if self._best is not None and self._final is not None:
            yield "final", [*self._bests[:-1], self._final.mean], _scored(self._final)
        elif self._best is not None:
            yield "confirmed", self._bests, f"{figures(self._best[1])} in generation {self._best[2]}"
        filled = next((stats for stats in self._run.history[:-3:-1] if stats.coverage is not None), None)
        if filled is not None:
            yield "repertoire", [], f"{percent(filled.coverage or 0)} of its cells, QD score {figures(filled.qd_score)}"
        speed = next((speed for stats in self._run.history[:-3:-1] if (speed := stats.steps_per_second)), None)
        if speed is not None:  # the run's last generation may play nothing
            yield "speed", [], f"{figures(round(speed))} steps/s"

    def _picture(self) -> RenderableType:
        """The live lines: called by a thread of its own, twice a second."""
        clock = duration(time.monotonic() - self._started)
        done = 1.0 if self._run.end is not None else self._run.share_done
        width = self._console.width - 4  # a terminal writes ^C behind it
        top = Table.grid(Column(), Column(ratio=1), Column(no_wrap=True), padding=(0, 2))
        top.width = width
        top.add_row(self._counted(), ProgressBar(1.0, done), f"{clock}, {self._left()}")

        columns = max(1, min(_CURVE_WIDTH, width - len("population") - _TEXT_WIDTH - 4))
        levels = _ASCII_LEVELS if self._console.options.ascii_only else _LEVELS
        below = Table.grid(Column(style="dim"), Column(width=_TEXT_WIDTH), Column(style="cyan"), padding=(0, 2))
        for name, values, numbers in self._rows():
            curve = _curve(values, columns, (self._low, self._high), levels)
            below.add_row(name, Text(numbers, no_wrap=True, overflow="ellipsis"), curve)
        return Group(top, below)

    def _counted(self) -> str:
        """The run's generation, and what is counted to the bound that will be reached first."""
        config, last = self._run.config, self._run.history[-1] if self._run.history else None
        done, steps, episodes = (last.generation, last.total_steps, last.total_episodes) if last else (0, 0, 0)
        counts = {
            "generation": (done, config.generations),
            "step": (steps, config.max_steps),
            "episode": (episodes, config.max_episodes),
        }
        shares = {name: count / most for name, (count, most) in counts.items() if most is not None}
        first = max(reversed(shares), key=lambda name: shares[name], default=None)
        if first is None or (first != "generation" and self._run.end is not None):
            return f"generation {done}"  # the final score is beyond the bound of steps
        if first == "generation":
            return f"generation {done}/{config.generations}"
        count, most = counts[first]
        return f"generation {done}, {first} {figures(count)}/{figures(most)}"

    def _left(self) -> str:
        end = self._run.end
        if end is not None:
            return {"solved": "solved", "generations": "done", "plateau": "done: a plateau"}.get(
                end, f"done: {end} is reached"
            )
        share = self._run.share_done
        if share == 1:
            return "finishing: final scores"
        if share <= self._share:
            return "starting"
        seconds = (time.monotonic() - self._started) / (share - self._share) * (1 - share)  # as fast as so far
        # Where there is a goal, the run ends with it.
        return f"{'about' if self._run.config.solved_at is None else 'at most'} {duration(seconds)} left"


def _so_far(playing: Playing) -> str:
    """Generations and steps so far, and the speed."""
    return f"{playing.done} of {playing.count}, {figures(round(playing.steps / playing.seconds))} steps/s"


def _scored(score: Evaluation) -> str:
    """A score in short, with what it is the mean of."""
    if score.success_rate is None:
        return f"{figures(score.mean)} ({counted(score.episodes, 'episode')})"
    return f"{figures(score.mean)}, {percent(score.success_rate)} of {figures(score.episodes)} successful"


def _curve(values: Sequence[float], width: int, bounds: tuple[float, float], levels: str) -> str:
    """The course of ``values`` between two bounds, in ``width`` characters at most."""
    columns = min(width, len(values))
    seen = [values[(k + 1) * len(values) // columns - 1] for k in range(columns)]
    low, high = (bound / 2 for bound in bounds)  # halves, whose difference is finite
    heights = [(value / 2 - low) / (high - low) if high > low else 0.0 for value in seen]
    return "".join(levels[round(height * (len(levels) - 1))] for height in heights)
