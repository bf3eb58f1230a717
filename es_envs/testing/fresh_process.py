"""The fresh process in which an environment is tried: it plays, and writes one line of JSON."""

import faulthandler
import functools
import itertools
import json
import math
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium

from es_envs.definition import EnvDefinition
from es_envs.episode import play
from es_envs.error_text import describe
from es_envs.return_values import Checked, ReturnError
from es_envs.scripts import RandomActions
from es_envs.testing.episodes import Chosen, action_sources, look, trace
from es_envs.testing.subject import (
    MARK,
    Subject,
)
from es_envs.worker_number import assign

LEAK_RESETS, LEAK_STEPS = 100, 1000
_LEAK_ROUNDS, _ROUND_SECONDS = 3, 3.0


_REHEARSED = 4  # episodes under random actions


_SIBLINGS = 3  # further processes in which it is played


_STDERR = 2  # whatever an environment makes of sys.stderr


def answer() -> None:
    """Run the fresh process: carry out the task that its stdin describes, write the result to stdout."""
    message = pickle.load(sys.stdin.buffer)  # noqa: S301  (of the process that has started this one)
    if message["worker"] is not None:
        assign(message["worker"])
    watch = functools.partial(_watch, *message["limits"])
    if sys.platform != "win32":
        faulthandler.register(signal.SIGPROF, file=_STDERR, chain=True)  # the signal then ends the process
    definition = EnvDefinition(
        id=message["id"],
        entry_point=message["entry_point"],
        initializer=message["initializer"],
        kwargs=message["kwargs"],
    )

    def carry_out(task: Callable[..., Any], *arguments: Any) -> Any:
        watch()
        with Subject(definition.id, definition, {}).env() as env:
            result = task(_Watched(env, watch), *arguments)
            watch()
        return result

    tasks: Mapping[str, Callable[..., Any]] = {
        "rehearsal": _rehearse, "life": _live, "growth": _growth, "look": look
    }  # fmt: skip
    text: dict[str, Any] = {}
    try:
        # Before anything is made, which no process would share with those that are forked from it.
        siblings = []
        if message["task"] == "life" and sys.platform == "linux":
            siblings = _in_siblings(functools.partial(carry_out, look, *message["arguments"][:2]))
        text["result"] = carry_out(tasks[message["task"]], *message["arguments"])
        if message["task"] == "life":
            text["result"]["siblings"] = siblings
    except ReturnError as error:
        text["hopeless"] = str(error)
    except KeyboardInterrupt as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        text["hopeless"] = (
            f"it raises KeyboardInterrupt in line {where.lineno} of {where.filename} ({where.name}), which ends "
            "whatever trains it as Ctrl-C would"
        )
    except Exception as error:  # noqa: BLE001  (the asking process tells of it)
        text["raised"] = describe(error)
    sys.stdout.write(f"{MARK}{json.dumps(text)}\n")


def _watch(seconds: float, processor_seconds: float) -> None:
    """Give a call its time. Both clocks run out even in compiled code that never releases the interpreter."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=_STDERR)
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, processor_seconds)


def _in_siblings(play: Callable[[], list[str]]) -> list[list[str] | str]:
    """Collect what ``play`` returns, or raises, in processes that are alike but for their ids."""
    readers = []
    for _ in range(_SIBLINGS):
        reader, writer = os.pipe()
        if not os.fork():
            try:
                text: list[str] | str = play()
            except BaseException as error:  # noqa: BLE001  (whatever it is, this process must end here)
                text = describe(error)
            os.write(writer, json.dumps(text).encode())
            os._exit(0)
        os.close(writer)
        readers.append(reader)
    answers = []
    for reader in readers:
        with os.fdopen(reader) as answer:
            answers.append(answer.read() or '"nothing, and ends"')
    return [json.loads(answer) for answer in answers]


class _Watched(Checked):
    """Each call has the same time, however many there are."""

    def __init__(self, env: gymnasium.Env[Any, Any], watch: Callable[[], None]) -> None:
        super().__init__(env)
        self._watch = watch

    def reset(self, **options: Any) -> Any:
        self._watch()
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        self._watch()
        return super().step(action)


def _rehearse(env: gymnasium.Env[Any, Any], seed: int, steps: int) -> str:
    """Episodes of every kind that the checks play."""
    for offset in range(_REHEARSED):
        trace(env, seed + offset, steps)
    for choose in action_sources(env.action_space).values():
        for _ in play(env, Chosen(env, seed, choose), seed, steps):
            pass
    return "done"


def _live(env: gymnasium.Env[Any, Any], seed: int, steps: int, life_steps: int, seconds: float) -> dict[str, Any]:
    """Play the same episode at various times of an environment's life: see ``Life``."""
    episodes = {"first": look(env, seed, steps), "again": trace(env, seed, steps).digests}
    episodes["third"] = look(env, seed, steps)
    played, end = 0, time.monotonic() + seconds
    for other in itertools.count(seed + 1):
        if played >= life_steps or time.monotonic() >= end:
            break
        for _ in play(env, RandomActions(env, other), other, steps, pauses=True):
            played += 1
            if time.monotonic() >= end:
                break
    return {**episodes, "late": look(env, seed, steps), "steps": played}


def _growth(env: gymnasium.Env[Any, Any], seed: int, steps: int, enough: float) -> float:
    """Bytes by which memory grows in a round: the least of some, since allocators grow in bursts.

    A round in which it grows by less than ``enough`` is the last one.
    """
    growths: list[float] = []
    _play_round(env, seed, steps)  # allocators take their share first
    for _ in range(_LEAK_ROUNDS):
        before = _memory()
        _play_round(env, seed, steps)
        growths.append(_memory() - before)
        if not growths[-1] >= enough:  # or unknown, NaN, which stays the least
            break
    return min(growths)


def _play_round(env: gymnasium.Env[Any, Any], seed: int, steps: int) -> None:
    """Begin many episodes, then play whole ones, as far as time allows."""
    for offset in range(LEAK_RESETS):
        for _ in play(env, RandomActions(env, offset), seed + offset, 1, pauses=True):
            pass
    played, end = 0, time.monotonic() + _ROUND_SECONDS
    for offset in itertools.count():
        for _ in play(env, RandomActions(env, offset), seed + offset, steps, pauses=True):
            played += 1
            if time.monotonic() >= end:
                return
        if played >= LEAK_STEPS:
            return


def _memory() -> float:
    """Bytes of physical memory that this process holds, NaN if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return math.nan
    return float(pages * os.sysconf("SC_PAGE_SIZE"))
