"""Names of arguments that have changed: old ones work for one more version, with a warning.

Files keep their keys. So two fields of ``TrainConfig`` have other names than the arguments of ``train`` for them.
"""

import functools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

RENAMED: Mapping[str, str] = {
    "beside": "compare",
    "changed_code": "allow_changed_code",
    "recycle_after": "episodes_per_worker",
    "steps_limit": "max_steps_per_generation",
    "stop_when": "stop_at_plateau",
}
"""Old names of arguments, and new ones. The options of the command line are the same with hyphens."""

_FIELDS: Mapping[str, str] = {"max_steps_per_generation": "steps_limit", "stop_at_plateau": "stop_when"}
_KEYWORDS: Mapping[str, str] = {field: name for name, field in _FIELDS.items()}


def field_name(argument: str) -> str:
    """Return the name of the field of TrainConfig that an argument of ``train`` sets."""
    return _FIELDS.get(argument, argument)


def keyword(field: str) -> str:
    """Return the name of the argument of ``train`` that sets a field of TrainConfig."""
    return _KEYWORDS.get(field, field)


def to_keywords(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``train`` that set these fields of TrainConfig."""
    return {keyword(name): value == "plateau" if name == "stop_when" else value for name, value in fields.items()}


def to_fields(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of TrainConfig that these arguments of ``train`` set.

    Raises:
        ValueError: ``stop_at_plateau`` is neither True nor False.
    """
    found = {field_name(name): value for name, value in arguments.items()}
    if (stops := arguments.get("stop_at_plateau", False)) not in {True, False}:
        raise ValueError(f"stop_at_plateau must be True or False, got {stops!r}")
    return found | ({"stop_when": "plateau" if stops else None} if "stop_at_plateau" in arguments else {})


def accepts_old_names(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let a function take its keyword arguments by their old names, too, with a FutureWarning."""

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        for old in RENAMED.keys() & kwargs.keys():
            new, value = RENAMED[old], kwargs.pop(old)
            _warn(old, new)
            if new in kwargs:
                raise TypeError(f"{new} is given twice: {old} is its old name")
            kwargs[new] = value == "plateau" if old == "stop_when" and value in {"plateau", None} else value
        return function(*args, **kwargs)

    return call


def with_new_options(words: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command with the new names of options, with a FutureWarning for each old one."""
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        old = option.removeprefix("--").replace("-", "_")
        if old == option or old not in RENAMED or "_" in option:
            yield word
            continue
        new = f"--{RENAMED[old].replace('_', '-')}"
        _warn(option, new)
        if old == "stop_when":  # it had a value: plateau or none
            yield new if (value if equals else next(rest, "")) == "plateau" else new.replace("--", "--no-", 1)
        else:
            yield f"{new}{equals}{value}"


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is now called {new}; the old name works in this version only", FutureWarning, stacklevel=3)
