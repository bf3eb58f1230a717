"""The conformance kit: whether an environment keeps the promises on which training relies.

For an environment's own tests, ``check_env("MyEnv-v0")``; ``examine`` returns the same as a report card. Each check is
a function with a sentence for a docstring; a fault is a sentence, too, and says what to change.
"""

import ast
import contextlib
import copy
import faulthandler
import functools
import inspect
import itertools
import json
import math
import os
import re
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env as gymnasium_check_env
from gymnasium.utils.env_checker import data_equivalence

from es_envs import registry
from es_envs.definition import EnvDefinition
from es_envs.fitness import fitness_names, load_fitness
from es_envs.returned import Checked, ReturnError
from es_envs.traces import Trace, bits, playing, trace

MAX_STEPS = 1000
"""Episodes are cut here, so that an environment without an end is checked in seconds."""
TIME_LIMIT = 30.0
"""Seconds that a call of the environment may take; one that takes longer hangs."""
LIFE_STEPS, LIFE_SECONDS = 5000, 5.0
"""Steps, or seconds if they are over first, after which an episode is compared with what it was before."""
LEAK_ROUNDS, LEAK_RESETS, LEAK_BYTES_PER_RESET = 3, 100, 10_000
_REHEARSED = 4  # episodes under random actions
_LOOK = 300  # steps of an episode that is compared with others several times
_SIBLINGS = 3  # further processes in which it is played


class ConformanceError(AssertionError):
    """An environment breaks promises; the message has one sentence for each.

    Attributes:
        raised: what the environment has raised, if that is the fault.
    """

    raised = ""


class HopelessError(ConformanceError):
    """An environment hangs, ends its process or returns nonsense: no further check can be made."""


class Skip(Exception):  # noqa: N818  (not an error)
    """A check cannot be made here; the message says why."""


@dataclass(frozen=True)
class CheckResult:
    """How one check went.

    Attributes:
        name: of the check.
        question: what it asks, in a sentence.
        status: "passed", "failed" or "skipped".
        message: the fault, or why the check was skipped; else empty.
    """

    name: str
    question: str
    status: Literal["passed", "failed", "skipped"]
    message: str = ""


@dataclass(frozen=True)
class Report:
    """An environment's report card.

    Attributes:
        env_id: the environment.
        results: of all checks, in order.
        distinct_starts: different first observations among 8 seeds; 1 means a fixed start, 0 unknown.
        reset_microseconds: what a seeded reset costs, or NaN if it cannot be measured.
        step_microseconds: what a step under random actions costs, or NaN if it cannot be measured.
    """

    env_id: str
    results: tuple[CheckResult, ...]
    distinct_starts: int
    reset_microseconds: float
    step_microseconds: float

    @property
    def passed(self) -> tuple[str, ...]:
        """Names of the checks that passed."""
        return tuple(result.name for result in self.results if result.status == "passed")

    @property
    def faults(self) -> tuple[str, ...]:
        """One sentence for each check that failed."""
        return tuple(result.message for result in self.results if result.status == "failed")


@dataclass(frozen=True)
class Answer:
    """Of a fresh process.

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
        """Whether the episode changes as time goes on, not only after the first one."""
        return bool(_difference(self.again, self.third) or _difference(self.third, self.late))


@dataclass(frozen=True)
class Subject:
    """What is checked: an environment's id and definition, and the constructor's keyword arguments."""

    env_id: str
    definition: EnvDefinition
    kwargs: Mapping[str, Any]

    @property
    def steps(self) -> int:
        """Where episodes are cut."""
        return min(self.definition.max_episode_steps or MAX_STEPS, MAX_STEPS)

    @functools.cached_property
    def rehearsal(self) -> Answer | ConformanceError:
        """How a fresh process gets on with whole episodes, or what is wrong."""
        try:
            return _elsewhere(self, "rehearsal", 0, self.steps)
        except ConformanceError as fault:
            return fault

    @functools.cached_property
    def _life(self) -> Life | ConformanceError:
        try:
            return Life(**_elsewhere(self, "life", 5, self.steps, LIFE_STEPS, LIFE_SECONDS).result)
        except ConformanceError as fault:
            return fault

    @property
    def life(self) -> Life:
        """How an episode comes out at various times, in processes that have played nothing before.

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
        """What whole episodes raise in a fresh process; empty: nothing."""
        return self.rehearsal.raised if isinstance(self.rehearsal, ConformanceError) else ""

    @contextlib.contextmanager
    def env(self, render_mode: str | None = None) -> Iterator[gymnasium.Env[Any, Any]]:
        """A bare environment, closed afterwards."""
        env = self.definition.build(render_mode, **self.kwargs)
        try:
            yield env
        finally:
            env.close()


def check_env(env_id: str, **kwargs: Any) -> Report:
    """Examine an environment and insist that no check fails.

    Args:
        env_id: as for ``es_envs.make``.
        **kwargs: for the environment's constructor.

    Raises:
        ConformanceError: at least one check fails.
        UnknownEnvError: nobody knows the id.
    """
    report = examine(env_id, **kwargs)
    if report.faults:
        raise ConformanceError("\n".join(f"{env_id}: {fault}" for fault in report.faults))
    return report


def examine(env_id: str, **kwargs: Any) -> Report:
    """Run all checks, whatever the outcome; arguments as for ``check_env``."""
    subject = Subject(env_id, registry.definition(env_id), kwargs)
    # Elsewhere first: what hangs or crashes must not take this process along.
    hopeless = isinstance(subject.rehearsal, HopelessError)
    first = _result(runs_by_name_in_a_fresh_process if hopeless else can_be_made, subject)
    others = [check for check in (can_be_made, *CHECKS) if check.__name__ != first.name]
    if first.status == "failed":
        reason = "nothing else can be said before that is repaired" if hopeless else "it cannot be made"
        rest = [CheckResult(check.__name__, str(check.__doc__), "skipped", reason) for check in others]
        return Report(env_id, (first, *rest), 0, math.nan, math.nan)
    results = [first]
    for check in others:
        result = _result(check, subject, known=subject.raises)
        if result.status == "failed" and result.message in {other.message for other in results}:
            result = replace(result, status="skipped", message=f"as above: {result.message}")
        results.append(result)
    try:
        starts, costs = _distinct_starts(subject), _costs(subject)
    except Exception:  # noqa: BLE001  (the checks have told what is wrong)
        starts, costs = 0, (math.nan, math.nan)
    return Report(env_id, tuple(results), starts, *costs)


def _result(check: Callable[[Subject], None], subject: Subject, known: str = "") -> CheckResult:
    """How one check goes; what another one has told of is ``known``."""
    name, question = check.__name__, str(check.__doc__)
    try:
        check(subject)
    except Skip as reason:
        return CheckResult(name, question, "skipped", str(reason))
    # A KeyboardInterrupt may be the user's: a fresh process finds those of the environment.
    except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever an environment raises is a fault of it)
        cause = error.__cause__ if isinstance(error, ConformanceError) else error
        if cause is not None and known == _told(cause):
            return CheckResult(name, question, "skipped", f"here, too, it raises {_told(cause)}")
        message = str(error) if isinstance(error, ConformanceError) else f"it raised {_told(error)} (asked: {question})"
        return CheckResult(name, question, "failed", message)
    return CheckResult(name, question, "passed")


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def can_be_made(subject: Subject) -> None:
    """The entry point makes an environment from the keyword arguments."""
    with subject.env() as env:
        env.reset(seed=0)


def runs_by_name_in_a_fresh_process(subject: Subject) -> None:
    """A worker process can make the environment from its entry point and keyword arguments, and play to the end."""
    if isinstance(subject.rehearsal, ConformanceError):
        raise subject.rehearsal


def prints_nothing(subject: Subject) -> None:
    """Nothing is written to stdout, where the results of programs stand."""
    if isinstance(subject.rehearsal, ConformanceError):
        raise Skip("no episode could be played in a fresh process")
    if subject.rehearsal.printed:
        line = subject.rehearsal.printed.splitlines()[0][:100]
        raise ConformanceError(
            f"it prints {line!r} to stdout, where the results of programs stand: use logging, or write to stderr"
        )


def follows_gymnasium(subject: Subject) -> None:
    """Gymnasium's own checker finds no error and has no warning."""
    render_mode = "rgb_array" if _can_render(subject) else None
    env = registry.make(subject.env_id, render_mode, **subject.kwargs)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            gymnasium_check_env(env.unwrapped)
    except (Exception, Warning) as error:
        message = re.sub(r"\x1b\[\d+m", "", f"{type(error).__name__}: {error}")  # Gymnasium colours its warnings
        raise ConformanceError(f"gymnasium.utils.env_checker.check_env says: {message}") from error
    finally:
        env.close()


def stays_within_its_spaces(subject: Subject) -> None:
    """Observations are members of the observation space, rewards finite, under random and under extreme actions."""
    with subject.env() as env:
        for name, actions in _action_sources(env.action_space).items():
            _check_episode(subject, env, name, actions)


def resets_by_seed(subject: Subject) -> None:
    """The same seed gives the same start, bit for bit."""
    with subject.env() as env:
        for seed in range(4):
            (first, first_info), _, (again, again_info) = (env.reset(seed=s) for s in (seed, seed + 100, seed))
            if bits(first) != bits(again) or not data_equivalence(first_info, again_info, exact=True):
                raise ConformanceError(
                    f"reset(seed={seed}) gives different starts when called twice: call super().reset(seed=seed) and "
                    "draw every random number from self.np_random"
                )


def begins_as_it_goes_on(subject: Subject) -> None:
    """The first episode that a process plays is the same, bit for bit, when it is played again."""
    life = subject.life
    step = _difference(life.first, life.again)
    if step and _difference(life.again, life.third):
        raise Skip("no two episodes are the same: see the next check")
    if step:
        raise ConformanceError(
            f"the first episode that a process plays is unlike all later ones with the same seed and actions, {step}: "
            "what it prepares, later ones find done (a cache, a file read when needed, a warm-up); prepare it in the "
            "constructor"
        )


def forgets_earlier_episodes(subject: Subject) -> None:
    """An episode is the same, bit for bit, whatever episodes came before it, few or many."""
    life = subject.life
    with subject.env() as env:
        trace(env, seed=1, steps=subject.steps)  # the first one is another check's
        fresh = trace(env, seed=1, steps=subject.steps)
        # Some are abandoned near the start: contacts that are still there after reset are the hardest to forget.
        for seed, steps in ((2, subject.steps), (3, 5), (4, subject.steps), (1, 1), (1, 2), (1, 5)):
            trace(env, seed, steps)
        again = trace(env, seed=1, steps=subject.steps)
    _insist_equal(
        fresh, again, "after other episodes", "something of them survives reset (caches, motors, contacts, counters)"
    )
    for one, other, when in (
        (life.again, life.third, "when it is played three times in a row"),
        (life.third, life.late, f"after {life.steps} steps of others"),
    ):
        step = _difference(one, other)
        if step:
            raise ConformanceError(
                f"the same seed and actions give another episode {when}, {step}: something survives reset (a counter "
                "of steps or episodes, a file that grows, memory that fills)"
            )


def is_the_same_in_every_process(subject: Subject) -> None:
    """An episode is the same, bit for bit, in a fresh process."""
    life = subject.life
    for sibling in life.siblings:
        if isinstance(sibling, str):
            raise ConformanceError(
                f"beside other processes it raises {sibling}: does it want a port, or a file, alone?"
            )
    differences = [_difference(life.first, sibling) for sibling in life.siblings]
    if not life.depends_on_the_past:
        with subject.env() as env:
            _look(env, 5, subject.steps)
            differences.append(_difference(life.again, trace(env, 5, subject.steps).digests))
    for difference in filter(None, differences):
        raise ConformanceError(
            f"the same seed and actions give another episode in a fresh process, {difference}: it depends on something "
            "besides them (a global random state, the process id, the time, hash order)"
        )


def shares_nothing_between_instances(subject: Subject) -> None:
    """Two environments that step in turns do not influence each other."""
    if subject.life.depends_on_the_past:
        raise Skip("an episode depends on those before it, and so on those of other environments perhaps")
    alone = []
    for seed in (1, 2):
        with subject.env() as env:
            trace(env, seed, 1)  # the first one is another check's
            alone.append(trace(env, seed, subject.steps))
    with subject.env() as first, subject.env() as second:
        for seed, env in ((1, first), (2, second)):
            trace(env, seed, 1)
        players = [playing(first, 1, subject.steps), playing(second, 2, subject.steps)]
        traces: dict[int, Trace] = {}
        while len(traces) < len(players):
            for index, player in enumerate(players):
                if index not in traces:
                    try:
                        next(player)
                    except StopIteration as end:
                        traces[index] = end.value
    for index, expected in enumerate(alone):
        _insist_equal(
            expected, traces[index], "beside another environment", "the two share state (class attributes, a client id)"
        )


def has_finite_fitness(subject: Subject) -> None:
    """Every fitness that the definition names is a finite number, for whole and for abandoned episodes."""
    with subject.env() as env:
        for name, target in fitness_names(subject.definition).items():
            for seed, steps in ((1, subject.steps), (2, 1)):
                fitness: Any = load_fitness(target)
                watching: Any = fitness() if inspect.isclass(fitness) else None
                episode = trace(env, seed, steps, watching).episode
                try:
                    value = watching.result(episode) if watching is not None else fitness(episode)
                except Exception as error:
                    raise ConformanceError(f"fitness {name!r} raises {_told(error)}") from error
                if not isinstance(value, SupportsFloat) or not math.isfinite(value):
                    raise ConformanceError(f"fitness {name!r} of an episode is {value!r}, expected a finite number")


def does_not_leak(subject: Subject) -> None:
    """Memory does not grow from reset to reset."""
    # In a fresh process: memory that this one has freed would hide a leak.
    growth = float(_elsewhere(subject, "growth", 0, LEAK_RESETS).result)
    if math.isnan(growth):
        raise Skip("this system has no /proc to tell how much memory a process holds")
    if growth > LEAK_BYTES_PER_RESET:
        raise ConformanceError(
            f"every reset leaks about {growth / 1000:.0f} kB: build the world once, in the constructor, not in reset"
        )


def renders(subject: Subject) -> None:
    """Pictures are uint8 arrays (height, width, 3), and an episode that is filmed is the same episode."""
    if not _can_render(subject):
        raise Skip("no 'rgb_array' in metadata['render_modes']: the environment can be trained, not filmed")
    steps = min(subject.steps, 50)
    with subject.env() as env:
        unseen = trace(env, seed=1, steps=steps)
    with subject.env("rgb_array") as env:
        if env.render_mode != "rgb_array":
            raise ConformanceError("render_mode is not kept: set self.render_mode = render_mode in the constructor")
        player = playing(env, 1, steps)
        shapes = set()
        try:
            while True:
                if next(player) % 20 == 0:
                    shapes.add(_picture_shape(env.render()))
        except StopIteration as end:
            filmed = end.value
        shapes.add(_picture_shape(env.render()))
    if len(shapes) > 1:
        raise ConformanceError(f"render gives pictures of several sizes: {sorted(shapes)}")
    if not isinstance(env.metadata.get("render_fps"), int | float) or not env.metadata["render_fps"] > 0:
        raise ConformanceError("metadata['render_fps'] must be the number of steps that make a second, for films")
    _insist_equal(unseen, filmed, "while it is filmed", "rendering or its preparation changes the simulation")


def closes_twice(subject: Subject) -> None:
    """An environment may be closed twice, and before its first reset."""
    for reset in (True, False):
        env = subject.definition.build(None, **subject.kwargs)
        if reset:
            env.reset(seed=0)
        env.close()
        try:
            env.close()
        except Exception as error:
            raise ConformanceError(f"close, called a second time, raises {type(error).__name__}: {error}") from error


CHECKS: tuple[Callable[[Subject], None], ...] = (
    runs_by_name_in_a_fresh_process,
    prints_nothing,
    follows_gymnasium,
    stays_within_its_spaces,
    resets_by_seed,
    begins_as_it_goes_on,
    forgets_earlier_episodes,
    is_the_same_in_every_process,
    shares_nothing_between_instances,
    has_finite_fitness,
    does_not_leak,
    renders,
    closes_twice,
)


def _insist_equal(one: Trace, other: Trace, circumstance: str, suspicion: str) -> None:
    difference = _difference(one.moments, other.moments)
    if difference:
        raise ConformanceError(
            f"the same seed and actions give another episode {circumstance}, {difference}: {suspicion}"
        )
    for when, info in (("starts", "start_info"), ("ends", "final_info")):
        if not data_equivalence(getattr(one.episode, info), getattr(other.episode, info), exact=True):
            raise ConformanceError(f"the same episode {when} with another info {circumstance}: {suspicion}")


def _difference(one: Sequence[object], other: Sequence[object]) -> str:
    """From where on two episodes differ, as far as both go; empty: nowhere."""
    for step, (moment, other_moment) in enumerate(zip(one, other, strict=False)):
        if moment != other_moment:
            return f"from step {step} on" if step else "from its start on"
    return ""


_STDERR = 2  # whatever an environment makes of sys.stderr
_MARK = "\nthe answer of es_envs.testing: "


def _elsewhere(subject: Subject, task: str, *arguments: float) -> Answer:
    """The answer of a fresh process that gets names only, as training's workers do."""
    definition = subject.definition
    message = {
        "id": definition.id,
        "entry_point": definition.entry_point,
        "initializer": definition.initializer,
        "kwargs": {**definition.kwargs, **subject.kwargs},
        "task": task,
        "arguments": arguments,
        "time_limit": TIME_LIMIT,
    }
    try:
        plain = ast.literal_eval(repr(message)) == message
    except (ValueError, SyntaxError):
        plain = False
    if not plain:
        raise ConformanceError(f"keyword arguments must be plain values to reach a worker, got {message['kwargs']!r}")
    child = subprocess.run(  # noqa: S603  (this interpreter, this module)
        [sys.executable, "-c", "from es_envs import testing; testing.answer()", repr(message)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},  # noqa: PTH109
    )
    before, mark, rest = child.stdout.rpartition(_MARK)
    if mark and not child.returncode:
        text, _, after = rest.partition("\n")
        said = json.loads(text)
        if "result" in said:
            return Answer(said["result"], (before + after).strip())
        if "hopeless" in said:
            raise HopelessError(said["hopeless"])
        fault = ConformanceError(f"a fresh process cannot run {definition.entry_point!r} by name: {said['raised']}")
        fault.raised = said["raised"]
        raise fault
    if "Timeout (" in child.stderr:
        raise HopelessError(f"it hangs: a call had not returned after {TIME_LIMIT:g} s{_whereabouts(child.stderr)}")
    if "Traceback (most recent call last)" not in child.stderr:
        end = f"signal {-child.returncode}" if child.returncode < 0 else f"exit code {child.returncode}"
        raise HopelessError(
            f"it ends the process in which it runs ({end}): a crash of compiled code, a lack of memory, or an exit"
        )
    reason = child.stderr.strip().splitlines()[-1]
    raise ConformanceError(f"a fresh process cannot run {definition.entry_point!r} by name: {reason}")


def _whereabouts(traceback: str) -> str:
    """Where the main thread, the last one that faulthandler writes down, has come to."""
    place = re.search(r'File "(.+)", line (\d+) in (\S+)', traceback.rpartition("Thread 0x")[2])
    return f", in line {place[2]} of {place[1]} ({place[3]})" if place else ""


def answer() -> None:
    """What the fresh process does: carry out the task that its argument describes, write the result to stdout."""
    message = ast.literal_eval(sys.argv[1])
    watch = functools.partial(faulthandler.dump_traceback_later, message["time_limit"], exit=True, file=_STDERR)
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

    tasks: Mapping[str, Callable[..., Any]] = {"rehearsal": _rehearse, "life": _live, "growth": _growth}
    said: dict[str, Any] = {}
    try:
        # Before anything is made, which no process would share with those that are forked from it.
        siblings = []
        if message["task"] == "life" and sys.platform == "linux":
            siblings = _in_siblings(functools.partial(carry_out, _look, *message["arguments"][:2]))
        said["result"] = carry_out(tasks[message["task"]], *message["arguments"])
        if message["task"] == "life":
            said["result"]["siblings"] = siblings
    except ReturnError as error:
        said["hopeless"] = str(error)
    except KeyboardInterrupt as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        said["hopeless"] = (
            f"it raises KeyboardInterrupt in line {where.lineno} of {where.filename} ({where.name}), which ends "
            "whatever trains it as Ctrl-C would"
        )
    except Exception as error:  # noqa: BLE001  (the asking process tells of it)
        said["raised"] = _told(error)
    sys.stdout.write(f"{_MARK}{json.dumps(said)}\n")


def _in_siblings(play: Callable[[], list[str]]) -> list[list[str] | str]:
    """What ``play`` returns, or raises, in processes that are alike but for their ids."""
    readers = []
    for _ in range(_SIBLINGS):
        reader, writer = os.pipe()
        if not os.fork():
            try:
                said: list[str] | str = play()
            except BaseException as error:  # noqa: BLE001  (whatever it is, this process must end here)
                said = _told(error)
            os.write(writer, json.dumps(said).encode())
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
    for choose in _action_sources(env.action_space).values():
        env.reset(seed=seed)
        for _ in range(steps):
            _, _, terminated, truncated, _ = env.step(choose())
            if terminated or truncated:
                break
    return "done"


def _look(env: gymnasium.Env[Any, Any], seed: int, steps: int) -> list[str]:
    return trace(env, seed, min(steps, _LOOK)).digests


def _live(env: gymnasium.Env[Any, Any], seed: int, steps: int, life_steps: int, seconds: float) -> dict[str, Any]:
    """The same episode at various times: see ``Life``."""
    episodes = {"first": _look(env, seed, steps), "again": trace(env, seed, steps).digests}
    episodes["third"] = _look(env, seed, steps)
    played, end = 0, time.monotonic() + seconds
    for other in itertools.count(seed + 1):
        if played >= life_steps or time.monotonic() >= end:
            break
        env.reset(seed=other)
        for _ in range(steps):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            played += 1
            if terminated or truncated or time.monotonic() >= end:
                break
    return {**episodes, "late": _look(env, seed, steps), "steps": played}


def _growth(env: gymnasium.Env[Any, Any], seed: int, resets: int) -> float:
    """Bytes by which memory grows with each reset: the least of some rounds, since allocators grow in bursts."""
    growths = []
    _reset_often(env, seed, resets)  # allocators take their share first
    for _ in range(LEAK_ROUNDS):
        before = _memory()
        _reset_often(env, seed, resets)
        growths.append((_memory() - before) / resets)
    return min(growths)


def _reset_often(env: gymnasium.Env[Any, Any], seed: int, times: int) -> None:
    for offset in range(times):
        env.reset(seed=seed + offset)
        env.step(env.action_space.sample())


def _memory() -> float:
    """Bytes of physical memory that this process holds, NaN if the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return math.nan
    return float(pages * os.sysconf("SC_PAGE_SIZE"))


def _action_sources(space: gymnasium.Space[Any]) -> dict[str, Callable[[], Any]]:
    """Ways to choose actions: at random, and the same extreme one in every step."""
    sources: dict[str, Callable[[], Any]] = {"random": space.sample}
    extremes: tuple[Any, ...] = ()
    if isinstance(space, spaces.Box):
        extremes = (space.low, space.high)
    elif isinstance(space, spaces.Discrete):
        extremes = (space.start, space.start + space.n - 1)
    elif isinstance(space, spaces.MultiBinary):
        extremes = (np.zeros(space.shape, space.dtype), np.ones(space.shape, space.dtype))
    for name, extreme in zip(("smallest", "largest"), extremes, strict=False):
        if space.contains(extreme) and np.all(np.isfinite(extreme)):
            sources[name] = functools.partial(copy.deepcopy, extreme)
    return sources


def _check_episode(subject: Subject, env: gymnasium.Env[Any, Any], name: str, choose: Callable[[], Any]) -> None:
    env.action_space.seed(0)
    observation, _ = env.reset(seed=0)
    _insist_member(env.observation_space, observation, "the observation of reset(seed=0)")
    for step in range(1, subject.steps + 1):
        observation, reward, terminated, truncated, _ = env.step(choose())
        when = f"at step {step} under {name} actions (seed 0)"
        _insist_member(env.observation_space, observation, f"the observation {when}")
        if not math.isfinite(reward):
            raise ConformanceError(f"the reward {when} is {reward!r}, expected a finite number")
        if terminated or truncated:
            return


def _insist_member(space: gymnasium.Space[Any], observation: Any, what: str) -> None:
    if space.contains(observation) and all(np.all(np.isfinite(leaf)) for leaf in _numbers(observation)):
        return
    if any(not np.all(np.isfinite(leaf)) for leaf in _numbers(observation)):
        raise ConformanceError(f"{what} holds NaN or infinity: {observation!r}")
    if isinstance(space, spaces.Box) and isinstance(observation, np.ndarray) and observation.shape == space.shape:
        outside = np.argwhere((observation < space.low) | (observation > space.high))
        if len(outside):
            entry = tuple(outside[0].tolist())
            raise ConformanceError(
                f"{what} is out of bounds: entry {entry} is {observation[entry]}, the space says "
                f"{space.low[entry]} to {space.high[entry]}; clip it or widen the space"
            )
        raise ConformanceError(f"{what} has dtype {observation.dtype}, the space says {space.dtype}")
    raise ConformanceError(f"{what} is no member of {space}: {observation!r}")


def _numbers(value: Any) -> Iterator[Any]:
    """The numeric leaves of an observation."""
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, int | float | np.number) or (isinstance(value, np.ndarray) and value.dtype.kind in "fiub"):
        yield value


def _can_render(subject: Subject) -> bool:
    with subject.env() as env:
        return "rgb_array" in env.metadata.get("render_modes", ())


def _picture_shape(picture: Any) -> tuple[int, ...]:
    if not (
        isinstance(picture, np.ndarray) and picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3
    ):
        seen = f"{picture.dtype} {picture.shape}" if isinstance(picture, np.ndarray) else type(picture).__name__
        raise ConformanceError(f"render must return a uint8 array (height, width, 3), got {seen}")
    return tuple(picture.shape)


def _distinct_starts(subject: Subject) -> int:
    with subject.env() as env:
        return len({bits(env.reset(seed=seed)[0]) for seed in range(8)})


def _costs(subject: Subject, seconds: float = 0.1) -> tuple[float, float]:
    """Microseconds for a seeded reset and for a step under random actions, each the mean over ``seconds``."""
    with subject.env() as env:
        actions = [env.action_space.sample() for _ in range(256)]
        reset_time = step_time = 0.0
        resets = steps = 0
        while step_time < seconds:
            start = time.perf_counter()
            env.reset(seed=resets)
            reset_time += time.perf_counter() - start
            resets += 1
            start = time.perf_counter()
            for step in range(subject.steps):
                _, _, terminated, truncated, _ = env.step(actions[step % len(actions)])
                steps += 1
                if terminated or truncated:
                    break
            step_time += time.perf_counter() - start
    return reset_time / resets * 1e6, step_time / steps * 1e6
