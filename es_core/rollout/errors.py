"""Episodes that fail, and environments that no policy fits."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Failure:
    """An episode that failed twice, with the same seed.

    Attributes:
        candidate: index of the candidate; None: the centre.
        seed: of the episode.
        kind: type of what was raised; "WorkerDied" or "StepTimeout" of a process that ended.
        message: its first line, shortened.
    """

    candidate: int | None
    seed: int
    kind: str
    message: str


class RolloutError(RuntimeError):
    """An episode failed; the message names the environment, the seed, the candidate and the generation.

    Attributes:
        failure: which episode, where one is to blame.
    """

    def __init__(self, message: str, failure: Failure | None = None) -> None:
        super().__init__(message)
        self.failure = failure


class SpaceError(ValueError):
    """A policy cannot be made for the environment's spaces, or not be computed here; the message says it all."""
