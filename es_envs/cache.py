"""The user's folder for what can be made again."""

import os
from contextlib import suppress
from pathlib import Path


def user_cache() -> Path | None:
    """Return the folder, which need not be there; None if the user has no home folder."""
    with suppress(RuntimeError):
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "es-envs"
    return None
