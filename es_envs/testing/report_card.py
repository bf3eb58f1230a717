"""The report card of an environment."""

import math
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from es_envs import registry
from es_envs.error_text import describe
from es_envs.masks import KEY, draw, has_choices
from es_envs.testing.checks import CHECKS, can_be_made, runs_by_name_in_a_fresh_process
from es_envs.testing.episodes import bits
from es_envs.testing.faults import ConformanceError, HopelessError, Note, Skip
from es_envs.testing.subject import Subject


@dataclass(frozen=True)
class CheckResult:
    """Result of one check.

    Attributes:
        name: of the check.
        question: what it asks, in a sentence.
        status: "passed"; "note", if training bears what it found; "failed"; or "skipped".
        message: what it found, or why it was skipped; else empty.
    """

    name: str
    question: str
    status: Literal["passed", "note", "failed", "skipped"]
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
    def notes(self) -> tuple[str, ...]:
        """One sentence for each check that found what training bears, but other programs may not."""
        return tuple(result.message for result in self.results if result.status == "note")

    @property
    def faults(self) -> tuple[str, ...]:
        """One sentence for each check that failed."""
        return tuple(result.message for result in self.results if result.status == "failed")


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
    checks = examine_stepwise(env_id, **kwargs)
    while True:
        try:
            next(checks)
        except StopIteration as end:
            return cast("Report", end.value)


def examine_stepwise(env_id: str, **kwargs: Any) -> Generator[CheckResult, None, Report]:
    """Run all checks, yield each result as soon as it is known, and return the report card.

    Arguments as for ``check_env``.
    """
    definition = registry.definition(env_id)
    varied = {"randomize": dict(definition.randomize)} if definition.randomize else {}  # as in training
    subject = Subject(env_id, definition, {**varied, **kwargs})
    results: list[CheckResult] = []
    for result in _results(subject):
        results.append(result)
        yield result
    starts, costs = 0, (math.nan, math.nan)
    if results[0].status != "failed":
        with suppress(Exception):  # the checks have reported what is wrong
            starts, costs = _distinct_starts(subject), _costs(subject)
    return Report(env_id, tuple(results), starts, *costs)


def _results(subject: Subject) -> Iterator[CheckResult]:
    # Elsewhere first: what hangs or crashes must not take this process along.
    hopeless = isinstance(subject.rehearsal, HopelessError)
    first = _result(runs_by_name_in_a_fresh_process if hopeless else can_be_made, subject)
    yield first
    seen: dict[str, str] = {}  # names of the checks that failed, by what they found
    for check in (can_be_made, *CHECKS):
        if check.__name__ == first.name:
            continue
        if first.status == "failed":
            reason = "nothing else can be checked before that is repaired" if hopeless else "it cannot be made"
            yield CheckResult(check.__name__, str(check.__doc__), "skipped", reason)
            continue
        result = _result(check, subject, known=subject.raises)
        if result.status == "failed" and result.message in seen:
            result = replace(result, status="skipped", message=f"the same fault as in {seen[result.message]}")
        elif result.status == "failed":
            seen[result.message] = result.name
        yield result


def _result(check: Callable[[Subject], None], subject: Subject, known: str = "") -> CheckResult:
    """Make one check; what another one has reported already is ``known``."""
    name, question = check.__name__, str(check.__doc__)
    try:
        check(subject)
    except Skip as reason:
        return CheckResult(name, question, "skipped", str(reason))
    except Note as note:
        return CheckResult(name, question, "note", str(note))
    # A KeyboardInterrupt may be the user's: a fresh process finds those of the environment.
    except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever an environment raises is a fault of it)
        cause = error.__cause__ if isinstance(error, ConformanceError) else error
        if cause is not None and known == describe(cause):
            return CheckResult(name, question, "skipped", "the episode raises the same error here")
        message = (
            str(error) if isinstance(error, ConformanceError) else f"it raised {describe(error)} (asked: {question})"
        )
        return CheckResult(name, question, "failed", message)
    return CheckResult(name, question, "passed")


def _distinct_starts(subject: Subject) -> int:
    with subject.env() as env:
        return len({bits(env.reset(seed=seed)[0]) for seed in range(8)})


def _costs(subject: Subject, seconds: float = 0.1) -> tuple[float, float]:
    """Microseconds for a seeded reset and for a step under random actions.

    Means over ``seconds`` of steps, or fewer where resets take more than ten times as long as all steps.
    """
    with subject.env() as env:
        actions = [env.action_space.sample() for _ in range(256)]
        reset_time = step_time = 0.0
        resets = steps = 0
        while resets == 0 or (step_time < seconds and reset_time < 10 * seconds):
            start = time.perf_counter()
            _, info = env.reset(seed=resets)
            reset_time += time.perf_counter() - start
            resets += 1
            start = time.perf_counter()
            for step in range(subject.steps):
                masked = has_choices(env.action_space) and info.get(KEY) is not None
                action = draw(env.action_space, info[KEY]) if masked else actions[step % len(actions)]
                _, _, terminated, truncated, info = env.step(action)
                steps += 1
                if terminated or truncated:
                    break
            step_time += time.perf_counter() - start
    return reset_time / resets * 1e6, step_time / steps * 1e6
