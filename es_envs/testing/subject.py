"""The environment under test, and how it behaves in a fresh process."""

import contextlib
import functools
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium

from es_envs.closing import closing_env
from es_envs.definition import EnvDefinition
from es_envs.episode import STEP_TIMEOUT
from es_envs.masks import with_masks
from es_envs.testing.episodes import first_difference
from es_envs.testing.faults import ConformanceError, HopelessError, Skip

MAX_STEPS = 1000
"""Episodes are cut here, so that an environment without an end is checked in seconds."""


TIME_LIMIT = STEP_TIMEOUT
"""Seconds that a call of the environment may take; one that takes longer hangs, as in training."""

PROCESSOR_LIMIT = 30.0
"""Seconds for which it may keep every core busy, where that can be measured, so that a loop without end is found sooner
even on a machine that does other things."""


LIFE_STEPS, LIFE_SECONDS = 5000, 5.0
"""Steps, or seconds if they are over first, after which an episode is compared with what it was before."""


@dataclass(frozen=True)
class Answer:
    """The answer of a fresh process.

    Attributes:
        result: what it was asked for, as JSON can hold it.
        printed: what else it has written to stdout.
    """

    result: Any
    printed: str


@dataclass(frozen=True)
class Life:
    """An episode that a fresh process plays time and again in one environment; each step of it is a digest.

    Attributes:
        first: its beginning, played before anything else.
        again: the whole episode, played next.
        third: its beginning, played next.
        late: its beginning, played after many other episodes.
        steps: of those other episodes.
        siblings: its beginning as other processes play it before anything else, or what they raised.
    """

    first: list[str]
    again: list[str]
    third: list[str]
    late: list[str]
    steps: int
    siblings: list[list[str] | str]

    @property
    def depends_on_the_past(self) -> bool:
        """Return True if the episode changes as time passes, not only after the first one."""
        return bool(first_difference(self.again, self.third) or first_difference(self.third, self.late))


@dataclass(frozen=True)
class Subject:
    """The environment under test: id and definition, and the constructor's keyword arguments."""

    env_id: str
    definition: EnvDefinition
    kwargs: Mapping[str, Any]

    @property
    def steps(self) -> int:
        """Number of steps at which episodes are cut."""
        return min(self.definition.max_episode_steps or MAX_STEPS, MAX_STEPS)

    @functools.cached_property
    def rehearsal(self) -> Answer | ConformanceError:
        """Result of whole episodes in a fresh process, or what is wrong."""
        try:
            return in_fresh_process(self, "rehearsal", 0, self.steps)
        except ConformanceError as fault:
            return fault

    @functools.cached_property
    def _life(self) -> Life | ConformanceError:
        try:
            return Life(**in_fresh_process(self, "life", 5, self.steps, LIFE_STEPS, LIFE_SECONDS).result)
        except ConformanceError as fault:
            return fault

    @property
    def life(self) -> Life:
        """Outcome of an episode at various times, in processes that have played nothing before.

        Raises:
            ConformanceError: such a process fails.
            Skip: it is known that it would.
        """
        if isinstance(self.rehearsal, ConformanceError):
            raise Skip("no episode could be played in a fresh process")
        if isinstance(self._life, ConformanceError):
            raise self._life
        return self._life

    @property
    def raises(self) -> str:
        """Error that whole episodes raise in a fresh process, or an empty text."""
        return self.rehearsal.raised if isinstance(self.rehearsal, ConformanceError) else ""

    @contextlib.contextmanager
    def env(self, render_mode: str | None = None) -> Iterator[gymnasium.Env[Any, Any]]:
        """A bare environment, closed afterwards."""
        env = with_masks(self.definition.build(render_mode, **self.kwargs))
        with closing_env(env, self.definition.label):
            yield env


MARK = "\nthe answer of es_envs.testing: "


def in_fresh_process(subject: Subject, task: str, *arguments: float, worker: int | None = None) -> Answer:
    """The answer of a fresh process that gets names and keyword arguments only, as training's workers do.

    Its number is ``worker``, or one that no other process has.
    """
    definition = subject.definition
    message = {
        "id": definition.id,
        "entry_point": definition.entry_point,
        "initializer": definition.initializer,
        "kwargs": {**definition.kwargs, **subject.kwargs},
        "task": task,
        "arguments": arguments,
        "limits": (TIME_LIMIT, PROCESSOR_LIMIT * (os.cpu_count() or 1)),
        "worker": worker,
    }
    try:
        sent = pickle.dumps(message)
    except Exception as error:
        raise ConformanceError(
            f"keyword arguments must be values that pickle takes to reach a worker, got {message['kwargs']!r}: {error}"
        ) from error
    # Files, since a pipe stays open as long as any process that the environment leaves behind.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+", encoding="utf-8") as err:
        child = subprocess.run(
            [sys.executable, "-c", "from es_envs.testing.fresh_process import answer; answer()"],
            input=sent,
            stdout=out,
            stderr=err,
            check=False,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),  # noqa: PTH109
                "PYTHONIOENCODING": "utf-8:backslashreplace",
            },
        )
        out.seek(0)
        err.seek(0)
        stdout, stderr = out.read(), err.read()
    before, mark, rest = stdout.rpartition(MARK)
    if mark and not child.returncode:
        text, _, after = rest.partition("\n")
        sentence = json.loads(text)
        if "result" in sentence:
            return Answer(sentence["result"], (before + after).strip())
        if "hopeless" in sentence:
            raise HopelessError(sentence["hopeless"])
        fault = ConformanceError(f"in a fresh process {definition.entry_point!r} raises {sentence['raised']}")
        fault.raised = sentence["raised"]
        raise fault
    if sys.platform != "win32" and child.returncode == -signal.SIGPROF:
        raise HopelessError(f"it hangs: a call does not return, and keeps the processor busy{_whereabouts(stderr)}")
    if "Timeout (" in stderr:
        raise HopelessError(f"it hangs: a call had not returned after {TIME_LIMIT:g} s{_whereabouts(stderr)}")
    if "Traceback (most recent call last)" not in stderr:
        end = f"signal {-child.returncode}" if child.returncode < 0 else f"exit code {child.returncode}"
        raise HopelessError(
            f"it ends the process in which it runs ({end}): a crash of compiled code, a lack of memory, or an exit"
        )
    reason = stderr.strip().splitlines()[-1]
    raise ConformanceError(f"in a fresh process {definition.entry_point!r} raises {reason}")


def _whereabouts(traceback: str) -> str:
    """Return where the main thread, the last one that faulthandler writes down, has come to."""
    place = re.search(r'File "(.+)", line (\d+) in (\S+)', traceback.rpartition("hread 0x")[2])
    return f", in line {place[2]} of {place[1]} ({place[3]})" if place else ""
