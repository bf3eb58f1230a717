"""Arguments that several commands have, and how settings are written on the command line."""

import argparse
import difflib
import json
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field
from typing import Any, NoReturn

import es_envs

_POOL_HELP = (
    "who plays: worker processes, each its own candidates (local, the default), on the nodes of a Ray cluster, too "
    "(ray); or one vector environment with a candidate in each copy, computed at once, on a GPU with --device cuda "
    "(vector)"
)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are as short as the others: the usage of some commands is fifty lines long.

    It takes no beginnings of options, which the next option that is added could make ambiguous.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **how})

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse the name of a command that does not exist; argparse itself would list them all."""
        if isinstance(action.choices, Mapping) and value not in action.choices:
            close = difflib.get_close_matches(value, action.choices, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise argparse.ArgumentError(None, f"there is no command {value!r}{hint}")
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        """End the process with exit code 2."""
        self.exit(2, f"error: {message}; `{self.prog} --help` says what there is\n")


def add_command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], int | None],
    help_text: str,
    *,
    as_json: bool = True,
) -> argparse.ArgumentParser:
    """A command that calls ``run`` with its options, and ends with the exit code that it returns, or 0.

    Args:
        commands: where it is added: what ``add`` of each of this package's modules is given.
        name: of the command.
        run: what it does.
        help_text: in lower case, without a full stop.
        as_json: whether it has ``--json``.
    """
    sub: argparse.ArgumentParser = commands.add_parser(
        name, help=help_text, description=help_text[0].upper() + help_text[1:] + "."
    )
    sub.add_argument("--quiet", action="store_true", help="show no progress")
    if as_json:
        sub.add_argument("--json", action="store_true", help="print the result as JSON")
    sub.set_defaults(command=run, parser=sub)
    return sub


def add_env_id(sub: argparse.ArgumentParser) -> None:
    """Which environment."""
    argument = sub.add_argument("env_id", metavar="ID", help="see `es-envs list`; ids that Gymnasium knows work too")
    argument.completer = _env_ids  # type: ignore[attr-defined]  # argcomplete looks for it


def _env_ids(**_: object) -> list[str]:
    return es_envs.env_ids()


def _env_ids_and_files(*, prefix: str, **_: object) -> list[str]:
    from argcomplete.completers import FilesCompleter

    return [*es_envs.env_ids(), *FilesCompleter(["safetensors"])(prefix)]


def add_run_dir(sub: argparse.ArgumentParser) -> None:
    """Where the run goes."""
    sub.add_argument("--run-dir", metavar="DIR", help="folder of the run (default: runs/ID/DATE-TIME-sSEED)")


def config_fields(options: argparse.Namespace) -> dict[str, Any]:
    """The fields of TrainConfig that were given."""
    from es_core.config.train_config import option_fields

    return {field.name: getattr(options, field.name) for field in option_fields() if hasattr(options, field.name)}


def care(options: argparse.Namespace) -> dict[str, Any]:
    """How the workers are looked after, where that was given."""
    return {name: getattr(options, name) for name in ("step_timeout", "recycle_after") if hasattr(options, name)}


def chosen_episodes(options: argparse.Namespace) -> dict[str, Any]:
    """Which episodes of which policy."""
    given = {name: getattr(options, name) for name in ("episodes", "seed", "generation", "candidate")}
    return {**given, "trust": options.trust_names}


def add_workers(sub: argparse.ArgumentParser, *, pool: bool = False) -> None:
    """How many processes, and for training, which pool."""
    sub.add_argument("--workers", type=int, metavar="N", help="worker processes (default: the usable cores)")
    if pool:
        sub.add_argument("--pool", choices=("local", "ray", "vector"), default="local", help=_POOL_HELP)
        sub.add_argument(
            "--ray-address",
            metavar="ADDRESS",
            help="cluster of --pool ray: auto or HOST:PORT (default: what RAY_ADDRESS names, or this machine alone)",
        )


def add_max_seconds(sub: argparse.ArgumentParser) -> None:
    """The bound in time, which changes no number."""
    sub.add_argument(
        "--max-seconds", type=float, metavar="S", help="stop after the generation in which so much time has passed"
    )


def add_training(sub: argparse.ArgumentParser) -> None:
    """How a run is carried out."""
    add_workers(sub, pool=True)
    add_max_seconds(sub)
    sub.add_argument(
        "--step-timeout",
        type=float,
        default=argparse.SUPPRESS,
        metavar="S",
        help="seconds that a step or reset may take, or its worker is ended and replaced (default: 300)",
    )
    sub.add_argument(
        "--recycle-after",
        type=int,
        default=argparse.SUPPRESS,
        metavar="N",
        help="episodes, after which a worker is replaced between two generations (default: never)",
    )
    sub.add_argument(
        "--logger",
        action="append",
        default=[],
        dest="loggers",
        metavar="NAME",
        help="whom to tell about the run besides: wandb (Weights & Biases); may be given several times",
    )


def add_trust(sub: argparse.ArgumentParser) -> None:
    """For commands that read what others may have written."""
    sub.add_argument(
        "--trust-names", action="store_true", help="let the run's files name modules outside the installed plugins"
    )


def add_size(sub: argparse.ArgumentParser) -> None:
    """Of a film."""
    sub.add_argument("--width", type=int, default=640, metavar="PIXELS", help="of the film (default: %(default)s)")
    sub.add_argument("--height", type=int, default=480, metavar="PIXELS", help="of the film (default: %(default)s)")


def add_source(sub: argparse.ArgumentParser) -> None:
    """Whose policy."""
    argument = sub.add_argument(
        "source", metavar="RUN", help="a run folder or a checkpoint file; with --pretrained, an environment's ID"
    )
    argument.completer = _env_ids_and_files  # type: ignore[attr-defined]
    sub.add_argument(
        "--pretrained", action="store_true", help="the policy that comes with the environment of that ID instead"
    )


def add_policy(sub: argparse.ArgumentParser, episodes: int | None) -> None:
    """Which policy, and which episodes it plays (None: without end)."""
    add_source(sub)
    default = "until the window is closed" if episodes is None else episodes
    sub.add_argument("--episodes", type=int, default=episodes, metavar="N", help=f"episodes (default: {default})")
    sub.add_argument("--seed", type=int, default=0, metavar="S", help="which unseen starts (default: %(default)s)")
    sub.add_argument("--generation", type=int, metavar="G", help="centre of this generation (default: the best)")
    sub.add_argument("--candidate", type=int, metavar="C", help="one of the population around that centre instead")
    add_trust(sub)


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """An option for each field of TrainConfig; one that is not given stays out of the namespace."""
    from es_core.config.train_config import option_fields

    group = parser.add_argument_group(
        "settings: task", "defaults are those below, then the strategy's own, then what the environment recommends"
    )
    for field in option_fields():
        if field.metadata["group"]:
            group = parser.add_argument_group(f"settings: {field.metadata['group']}")
        default = f" (default: {field.default})" if field.default not in {None, MISSING} else ""
        add_config_option(group, field, field.metadata["help"] + default)


def add_config_option(group: Any, field: "Field[Any]", help_text: str) -> None:
    """The option for one field of TrainConfig."""
    flag, text = f"--{field.name.replace('_', '-')}", help_text.replace("%", "%%")
    if field.type is bool:
        group.add_argument(flag, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=text)
    else:
        parse, metavar = _parse(field.type)
        group.add_argument(flag, type=parse, default=argparse.SUPPRESS, help=text, metavar=metavar)


def _parse(kind: Any) -> tuple[Callable[[str], Any], str]:
    """A function from an argument's text to a value of this type, and what the help calls the value.

    "none" stands for None where that is possible.
    """
    optional = isinstance(kind, types.UnionType)
    parts = [part for part in typing.get_args(kind) if part is not types.NoneType] if optional else [kind]
    base = parts[0] if len(parts) == 1 else object  # several kinds of values: JSON tells them apart
    origin = typing.get_origin(base) or base

    def parse(text: str) -> Any:
        if optional and text.lower() == "none":
            return None
        if origin is tuple:
            return tuple(int(part) for part in text.split(",") if part.strip())
        return base(text) if base in {int, float, str} else _json(text)

    # argparse says "invalid NAME value: '...'", with the function's name.
    words = {
        int: ("whole number", "N"),
        float: ("number", "NUMBER"),
        str: ("text", "NAME"),
        tuple: ("list of whole numbers (such as 32,32)", "N,N"),
    }
    parse.__name__, metavar = words.get(origin, ("JSON", "JSON"))
    return parse, metavar


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def searched(text: str) -> tuple[str, Any]:
    """The setting that ``--search`` names, and its range as a tuple, or its values as a list."""
    from es_core.config.train_config import option_fields, unknown_field

    name, _, values = (part.strip() for part in text.partition("="))
    name = name.replace("-", "_")
    kinds = {field.name: field.type for field in option_fields()}
    if name not in kinds:
        raise TypeError(unknown_field(name, set(kinds)))
    low, dots, high = values.partition("..")
    parse, kind = _parse(kinds[name])
    try:
        if values.startswith("["):
            return name, _json(values)
        if dots and "|" not in values:
            return name, (_number(low), _number(high))
        return name, [parse(value.strip()) for value in values.split("|")]
    except ValueError as error:
        raise ValueError(
            f"--search {text}: expected {name}=LOW..HIGH with two numbers, {name}=A|B|C where each is a {kind}, or "
            f"{name}=[...] with a list in JSON ({error})"
        ) from error


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)
