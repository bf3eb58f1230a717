"""The error that ended a run, as a file in its folder."""

import json
from dataclasses import asdict, dataclass
from typing import Any, Self

from es_core.rollout.errors import Failure
from es_envs.error_text import text_of

_MOST_TEXT = 10_000  # characters of a message


@dataclass(frozen=True, kw_only=True)
class RunFailure:
    """The error that ended a run.

    Attributes:
        generation: the generation that it ended.
        kind: the error's type.
        message: the error's message.
        episode: the episode that failed, if that was the cause.
    """

    generation: int
    kind: str
    message: str
    episode: Failure | None = None

    @classmethod
    def of(cls, error: BaseException, generation: int) -> Self:
        """The failure that an error is."""
        episode = getattr(error, "failure", None)
        return cls(
            generation=generation,
            kind=type(error).__name__,
            message=text_of(error)[:_MOST_TEXT],
            episode=episode if isinstance(episode, Failure) else None,
        )

    def __str__(self) -> str:
        """The type, and the message's first line."""
        return f"{self.kind}: {(self.message.splitlines() or [''])[0]}"

    @property
    def replay(self) -> dict[str, int]:
        """Options of ``replay`` that show the episode; empty if there is none."""
        return {} if self.episode is None else self.episode.replay(self.generation)

    def to_bytes(self) -> bytes:
        """The content of its file."""
        return json.dumps(asdict(self), indent=2).encode() + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read the content of its file, which may be a stranger's.

        Raises:
            ValueError, TypeError, RecursionError: it is no such file.
        """
        values: dict[str, Any] = json.loads(content)
        episode = values.pop("episode")
        failure = cls(**values, episode=None if episode is None else Failure(**episode))
        numbers = [failure.generation, *failure.replay.values()]
        texts = [failure.kind, failure.message]
        if not all(type(number) is int for number in numbers) or not all(isinstance(text, str) for text in texts):
            raise ValueError("it holds other values than numbers and texts")
        return failure
