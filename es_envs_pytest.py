"""The pytest plugin of es-envs: the fixture ``check_env``, for the tests of environments.

A module of its own, and not in es_envs: pytest loads it at every start, whatever is tested, and es_envs needs NumPy.
"""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def check_env() -> Callable[..., Any]:
    """``check_env(id, **kwargs)``: insist that an environment keeps all promises; see ``es_envs.testing``."""
    from es_envs import testing

    return testing.check_env
