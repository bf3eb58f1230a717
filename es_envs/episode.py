"""The one loop that steps an environment, and the episode that it plays."""

from collections.abc import Callable, Generator, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np

from es_envs.error_text import message_of
from es_envs.masks import KEY, require_choices
from es_envs.return_values import of_reset, of_step, reset


@dataclass(frozen=True, kw_only=True)
class Episode:
    """One episode: what was measured in it.

    Attributes:
        seed: the seed given to ``reset``.
        total_reward: sum of the rewards (the return).
        length: number of steps.
        terminated: the environment ended the episode.
        truncated: the step limit ended it, or the environment itself without a terminal state.
        start_info: the info that ``reset`` returned.
        final_info: the info of the last step.
        first_observation: as ``reset`` returned it, neither flattened nor normalised.
        last_observation: as the last step returned it.
        fitnesses: values by name, the one that drives selection first; a secondary fitness that failed is None.
        at_bounds: share of the actions' entries that were at a bound of the action space; None if nobody counted them.
        behaviour: the numbers that describe it (``es_envs.behaviour``); empty if no strategy asked for them.
    """

    seed: int
    total_reward: float
    length: int
    terminated: bool
    truncated: bool
    start_info: Mapping[str, Any] = field(default_factory=dict)
    final_info: Mapping[str, Any] = field(default_factory=dict)
    first_observation: Any = None
    last_observation: Any = None
    fitnesses: Mapping[str, float | None] = field(default_factory=dict)
    at_bounds: float | None = None
    behaviour: tuple[float, ...] = ()

    @property
    def ending(self) -> str:
        """The episode's end in a few words: ``final_info["ending"]``, or what success and the step limit say.

        At the step limit: "held to the end" with success, or if each step's reward was 1, else "time is up". Before it:
        "finished" with success, else "ended".
        """
        ending = self.final_info.get("ending")
        if isinstance(ending, str) and ending:
            return ending
        if self.truncated:
            held = self.total_reward == self.length if self.is_success is None else self.is_success
            return "held to the end" if held else "time is up"
        return "finished" if self.is_success else "ended"

    @property
    def is_success(self) -> bool | None:
        """``final_info["is_success"]``; None if the environment does not say.

        Raises:
            ValueError: it is no single truth value.
        """
        success = self.final_info.get("is_success")
        if success is None or isinstance(success, bool):
            return success
        value = np.asarray(success)
        if value.size != 1 or value.dtype.kind not in "biuf":
            raise ValueError(f"info['is_success'] must be True or False, got {success!r}")
        return bool(value.item())

    @property
    def fitness(self) -> float:
        """The value that drives selection.

        Raises:
            ValueError: no fitness has been computed for this episode yet.
        """
        value = next(iter(self.fitnesses.values()), None)
        if value is None:
            raise ValueError("this episode's fitness has not been computed")
        return value


@runtime_checkable
class StepFitness(Protocol):
    """A fitness that sees every step; a new one is made for each episode."""

    def on_step(self, observation: Any, action: Any, reward: float, info: Mapping[str, Any]) -> None:
        """Called after every step, with what ``step`` returned and the action that it was given."""

    def result(self, episode: Episode) -> float:
        """Called once, when the episode has ended."""


Observer = Callable[[Any, Any, float, Mapping[str, Any]], object]
"""Called after every step with observation, action, reward and info."""
Steps = Generator[Callable[[], Episode], None, Episode]
"""An episode that is being played: what it yields, once a step, returns the episode so far."""
STEP_TIMEOUT = 300.0
"""Seconds that a step or reset may take, unless training is given another limit."""

STEP, STOP = 0, 1
"""Places in ``progress``: the present step, and a number that is not 0 once the episode must stop."""


class EpisodeStopped(BaseException):
    """An episode has stopped between two steps, since whoever wanted it has ended or is about to."""


def play(
    env: gymnasium.Env[Any, Any],
    act: Callable[[Any], Any],
    seed: int,
    limit: int,
    observers: Sequence[Observer] = (),
    *,
    options: dict[str, Any] | None = None,
    progress: MutableSequence[int] | None = None,
    pauses: bool = False,
) -> Steps:
    """Play one episode: the loop through which each one passes, of training, films and the conformance kit alike.

    Args:
        env: the environment.
        act: chooses an action for each observation. If it has an attribute ``takes_masks``, that is True if it also
            takes the mask of the actions (see ``es_envs.masks``), and False if it cannot.
        seed: for ``env.reset``.
        limit: steps at most.
        observers: called after every step.
        options: for ``env.reset``, or None.
        progress: where the number of each step is written, for whoever watches, and where they may stop the episode.
        pauses: yield after every step; else the first ``next`` plays all of it.

    Yields:
        A function that returns the episode up to the present step, without fitness.

    Returns:
        The episode, without fitness, as the value of the generator.

    Raises:
        ValueError: a reward is not a number, or ``reset`` or ``step`` returns something else than it must.
        ValueError: there is a mask of actions, and ``act`` cannot keep it.
        EpisodeStopped: ``progress`` asks for it.
        RuntimeError: the environment, ``act`` or an observer raises StopIteration.
        Exception: whatever the environment raises.
    """
    env_step, progress = env.step, [0, 0] if progress is None else progress
    progress[STEP] = 0
    if progress[STOP]:
        raise EpisodeStopped
    given: dict[str, Any] = {"seed": seed} if options is None else {"seed": seed, "options": options}
    with NamedStop():
        observation, start_info = of_reset(env, reset(env, **given))
    first_observation, start_info = _kept(observation), _kept(start_info)
    total_reward, length, terminated, truncated = 0.0, 0, False, False
    takes_masks = getattr(act, "takes_masks", None)
    masked = KEY in start_info
    if masked and takes_masks is False:
        require_choices(env.action_space)
    info: Mapping[str, Any] = start_info

    def so_far() -> Episode:
        return Episode(
            seed=seed,
            total_reward=total_reward,
            length=length,
            terminated=bool(terminated),
            truncated=not terminated and (bool(truncated) or length == limit),
            start_info=start_info,
            final_info=_kept(info),
            first_observation=first_observation,
            last_observation=_kept(observation),
        )

    with NamedStop():
        for length in range(1, limit + 1):
            action = act(observation, info[KEY]) if masked and takes_masks else act(observation)  # type: ignore[call-arg]
            returned = env_step(_kept(action) if observers else action)  # an environment may write into it
            try:
                observation, reward, terminated, truncated, info = returned
                gained = float(reward + 0.0)  # type: ignore[operator]  # text is no number; float32 sums are coarse
                goes_on, masked = not (terminated or truncated), KEY in info
            except (TypeError, ValueError):  # arrays with one entry, or wrong values, which this names
                observation, reward, terminated, truncated, info = of_step(env, returned)
                gained, goes_on, masked = reward, not (terminated or truncated), KEY in info
            total_reward += gained
            progress[STEP] = length
            if progress[STOP]:
                raise EpisodeStopped
            for observe in observers:
                observe(observation, action, reward, info)  # type: ignore[arg-type]
            if pauses:
                yield so_far
            if not goes_on:
                break

    of_step(env, (observation, 0.0, terminated, truncated, info))  # the info is what fitness functions see
    return so_far()


class NamedStop:
    """A context that names a StopIteration, which a generator would turn into an error that says nothing.

    Raises:
        RuntimeError: one was raised; it is the cause.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, StopIteration):
            raise RuntimeError(
                f"StopIteration was raised, by next() on an iterator that has run out: {message_of(error)}"
            ) from error


def _kept(value: Any) -> Any:
    """An observation, action or info with copies of its arrays, into which an environment may write."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Mapping):
        return {key: _kept(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        items = [_kept(item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    return value
