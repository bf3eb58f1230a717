"""Errors: episodes that fail, and environments that no policy fits."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Failure:
    """An episode that failed twice, with the same seed.

    Attributes:
        candidate: index of the candidate; None: the centre.
        seed: the episode's seed.
        kind: the error's type; "WorkerDied" or "StepTimeout" if the process ended.
        message: the first line of the error's message, shortened.
        generation: of the policy; None: that at which the run is.
    """

    candidate: int | None
    seed: int
    kind: str
    message: str
    generation: int | None = None

    def replay(self, generation: int) -> dict[str, int]:
        """Options of ``replay`` that show the episode; ``generation``: at which the run was."""
        candidate = {} if self.candidate is None else {"candidate": self.candidate}
        own = generation if self.generation is None else self.generation
        return {"generation": own, **candidate, "seed": self.seed}


class RolloutError(RuntimeError):
    """An episode failed; the message names the environment, the seed, the candidate and the generation.

    Attributes:
        failure: the episode, if a single one failed.
    """

    def __init__(self, message: str, failure: Failure | None = None) -> None:
        super().__init__(message)
        self.failure = failure


class SpaceError(ValueError):
    """A policy cannot be made for the environment's spaces, or not be computed here."""
