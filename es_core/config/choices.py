"""The words that a setting may be, where other modules need them, too."""

# These replace an episode's fitness by the sum of sign(reward) over its steps (Salimans et al. 2017, released code).
SIGN_SHAPINGS = frozenset({"sign", "centered_sign"})

SCRIPTED = "scripted:"
"""Begins the name of a policy that is a script of the environment's definition."""

SCHEDULES = ("linear", "cosine", "exponential")
