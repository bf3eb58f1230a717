"""The words that a setting may be, where other modules need them, too."""

# The sum over an episode's steps of sign(reward) takes the place of its fitness (Salimans et al. 2017, released code).
SIGN_SHAPINGS = frozenset({"sign", "centered_sign"})


SCHEDULES = ("linear", "cosine", "exponential")
