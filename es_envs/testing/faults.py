"""Errors of the conformance kit."""


class ConformanceError(AssertionError):
    """An environment breaks promises; the message has one sentence for each.

    Attributes:
        raised: what the environment has raised, if that is the fault.
    """

    raised = ""


class HopelessError(ConformanceError):
    """An environment hangs, ends its process or returns nonsense: no further check can be made."""


class Note(Exception):  # noqa: N818  (not an error)
    """Training bears this, but other programs may not, or advise against it; the message says what it is."""


class Skip(Exception):  # noqa: N818  (not an error)
    """A check cannot be made here; the message says why."""
