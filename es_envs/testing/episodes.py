"""Episodes under random actions, to the last bit: what the conformance kit compares."""

import copy
import functools
import hashlib
import itertools
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium import spaces

from es_envs.episode import Episode, StepFitness, play
from es_envs.masks import is_allowed
from es_envs.scripts import RandomActions

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # in memory, of an object that does not say what it holds


@dataclass(frozen=True)
class Trace:
    """An episode under random actions, to the last bit.

    Attributes:
        moments: the bytes of each observation and reward, and of how the episode ended, unless it was cut.
        infos: the bytes of the infos, from that of reset on.
        episode: the same as fitness functions see it.
    """

    moments: tuple[bytes, ...]
    infos: tuple[bytes, ...]
    episode: Episode

    @property
    def digests(self) -> list[str]:
        """A short text for each moment: equal for equal moments, in any process."""
        both = itertools.zip_longest(self.moments, self.infos, fillvalue=b"")
        return [hashlib.blake2b(moment + info, digest_size=8).hexdigest() for moment, info in both]


class Chosen(RandomActions):
    """Takes the actions that a function chooses, or random ones where the environment does not allow these."""

    def __init__(self, env: gymnasium.Env[Any, Any], seed: int, choose: Callable[[], Any]) -> None:
        super().__init__(env, seed)
        self._space, self._choose = env.action_space, choose

    def __call__(self, observation: Any, mask: Any = None) -> Any:
        """Return the action, whatever the observation."""
        action = self._choose()
        return action if mask is None or is_allowed(self._space, action, mask) else super().__call__(observation, mask)


def playing(
    env: gymnasium.Env[Any, Any],
    seed: int,
    steps: int,
    observers: Sequence[StepFitness] = (),
    *,
    choose: Callable[[], Any] | None = None,
    pauses: bool = True,
) -> Generator[Callable[[], Episode], None, Trace]:
    """Play an episode; pause after every step. ``choose`` gives actions; None: random ones that depend on the seed."""
    act = RandomActions(env, seed) if choose is None else Chosen(env, seed, choose)
    moments: list[bytes] = []
    infos: list[bytes] = []

    def keep(observation: Any, action: Any, reward: float, info: Mapping[str, Any]) -> None:  # noqa: ARG001
        moments.append(bits((observation, float(reward))))
        infos.append(bits(info))

    watching = [keep, *(observer.on_step for observer in observers)]
    episode = yield from play(env, act, seed, steps, watching, pauses=pauses)
    ended = [bits(episode.terminated)] if episode.length < steps else []  # else it may have been cut
    start = bits(episode.first_observation), bits(episode.start_info)
    return Trace((start[0], *moments, *ended), (start[1], *infos), episode)


def trace(
    env: gymnasium.Env[Any, Any],
    seed: int,
    steps: int,
    observers: Sequence[StepFitness] = (),
    *,
    choose: Callable[[], Any] | None = None,
) -> Trace:
    """Play a whole episode, or ``steps`` steps of it; ``choose``: see ``playing``."""
    try:
        next(playing(env, seed, steps, observers, choose=choose, pauses=False))
    except StopIteration as end:
        return cast("Trace", end.value)
    raise RuntimeError("an episode that does not pause has paused")


def bits(value: Any) -> bytes:
    """Bytes that are equal only for values equal to the last bit."""
    if isinstance(value, Mapping):
        return b"{" + b",".join(bits(key) + b":" + bits(value[key]) for key in sorted(value, key=repr)) + b"}"
    if isinstance(value, tuple | list):
        return b"(" + b",".join(bits(item) for item in value) + b")"
    if isinstance(value, set | frozenset):
        return b"<" + b",".join(sorted(map(bits, value))) + b">"
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return f"{value.dtype}{value.shape}".encode() + value.tobytes()
    return _ADDRESS.sub("", repr(value)).encode()


def first_difference(one: Sequence[object], other: Sequence[object]) -> str:
    """Tell from where on two episodes differ, as far as both go; empty: nowhere."""
    for step, (moment, other_moment) in enumerate(zip(one, other, strict=False)):
        if moment != other_moment:
            return f"from step {step} on" if step else "from its start on"
    return ""


def action_sources(space: gymnasium.Space[Any]) -> dict[str, Callable[[], Any]]:
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


_LOOK = 300  # steps of an episode that is compared with others several times


def look(env: gymnasium.Env[Any, Any], seed: int, steps: int) -> list[str]:
    """The digests of an episode's beginning."""
    return trace(env, seed, min(steps, _LOOK)).digests
