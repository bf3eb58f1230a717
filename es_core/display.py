"""What a run shows while it goes on: a progress bar in a terminal or notebook, plain lines elsewhere. All on stderr."""

import time
from collections.abc import Iterable
from importlib.util import find_spec
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from es_core.advice import Adviser
from es_core.budget import share_done
from es_core.run import GenerationStats, Run

_LINE_EVERY = 2.0  # seconds between plain lines


def film_progress(*, shown: bool) -> Progress:
    """A bar that counts frames, where there is a terminal or notebook to show it."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=not (shown and _is_live(console)))


def search_progress(*, shown: bool) -> Progress:
    """A bar for each trial, where there is a terminal or notebook to show it; its console takes lines anywhere."""
    console = Console(stderr=True, quiet=not shown)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TaskProgressColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, disable=not (shown and _is_live(console)))


def _is_live(console: Console) -> bool:
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)


class _TwoLines(Progress):
    """A bar, and below it the numbers, which would not fit beside it."""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        for task in self.tasks:
            yield Text(task.fields["numbers"], no_wrap=True, overflow="ellipsis")


class Display:
    """Generation, fitness of population and centre, steps per second, the time left at most, and advice."""

    def __init__(self, run: Run, note: str = "") -> None:
        self._run, self._note = run, note
        self._console = Console(stderr=True)
        self._live = _is_live(self._console)
        self._progress = _TwoLines(
            SpinnerColumn(),
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            disable=not self._live,
        )
        self._task = self._progress.add_task(
            run.config.env_id, total=run.config.generations, completed=len(run.history), numbers="starting", left=""
        )
        self._started, self._shown = time.monotonic(), 0.0
        self._share = self._share_done()  # of this session's beginning
        self._score, self._adviser = "", Adviser()

    def __enter__(self) -> Self:
        where = f"{self._run.config.env_id}: training in {self._run.directory}"
        for line in (where, self._note):
            if line:
                self._console.print(line, highlight=False, soft_wrap=True)
        self._progress.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.__exit__(kind, error, traceback)

    def show(self, stats: GenerationStats) -> None:
        """Show one generation."""
        done, total = stats.generation, self._run.config.generations
        score = stats.confirmation or stats.evaluation
        if score is not None:
            self._score = f"centre {score.mean:.1f}" + (
                f" ({score.success_rate:.0%} successful)" if score.success_rate is not None else ""
            )
        population = (
            f"fitness {stats.fitness_mean:.1f}, max {stats.fitness_max:.1f}" if stats.fitness_mean is not None else ""
        )
        speed = f"{_thousands(stats.steps_per_second)} steps/s"
        numbers = "; ".join(part for part in (population, self._score, speed) if part)
        end = self._run.end
        if end is None:
            left = f"at most {_duration(self._remaining())} left"
        else:
            left = {"solved": "solved", "generations": "done"}.get(end, f"done: {end} is reached")
        self._progress.update(self._task, completed=done, numbers=numbers, left=left)
        if not self._live and (end is not None or time.monotonic() - self._shown >= _LINE_EVERY):
            self._shown = time.monotonic()
            self._console.print(f"generation {done}/{total}: {numbers}; {left}", highlight=False, soft_wrap=True)
        text = self._adviser.hear(self._run.history)
        if text:
            self._console.print(f"advice: {text}", highlight=False, soft_wrap=True)

    def _remaining(self) -> float:
        """Seconds until the bound that will be reached first, as fast as it has gone on so far."""
        share = self._share_done()
        return (time.monotonic() - self._started) / (share - self._share) * (1 - share)

    def _share_done(self) -> float:
        history = self._run.history
        steps, episodes = (history[-1].total_steps, history[-1].total_episodes) if history else (0, 0)
        return share_done(self._run.config, generations=len(history), steps=steps, episodes=episodes)


def _thousands(rate: float) -> str:
    return f"{rate / 1000:.0f}k" if rate >= 10_000 else f"{rate / 1000:.1f}k"


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
