"""Arguments that several commands have, and how settings are written on the command line."""

import argparse
import json
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, fields
from typing import Any

import es_envs
from es_core.cli.parser import Parser
from es_core.config.checks import AUTO
from es_core.config.keywords import field_name, keyword
from es_core.pools.options import PoolOptions

TRUST_HELP = "let the run's files name modules outside the installed plugins"


def add_command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], int | None],
    help_text: str,
    *,
    as_json: bool = True,
    examples: Sequence[str] = (),
) -> Parser:
    """Add a command that calls ``run`` with its options, and ends with the exit code that it returns, or 0.

    Args:
        commands: where it is added: what ``add`` of each of this package's modules is given.
        name: of the command.
        run: what it does.
        help_text: in lower case, without a full stop.
        as_json: whether it has ``--json``.
        examples: of it, for its help, without the program's name.
    """
    sub: Parser = commands.add_parser(name, description=help_text[0].upper() + help_text[1:] + ".")
    sub.summary = help_text
    sub.examples = tuple(f"es-envs {name} {example}" for example in examples)
    sub.add_argument("--quiet", action="store_true", help="show no progress")
    if as_json:
        sub.add_argument("--json", action="store_true", help="print the result as JSON")
    sub.set_defaults(command=run, parser=sub)
    return sub


def add_env_id(sub: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Add the environment."""
    how: dict[str, Any] = {"nargs": "?"} if optional else {}
    argument = sub.add_argument(
        "env_id", metavar="ID", **how, help="see `es-envs list`; ids that Gymnasium knows work too"
    )
    argument.completer = _env_ids  # type: ignore[attr-defined]  # argcomplete looks for it


def _env_ids(**_: object) -> list[str]:
    return es_envs.env_ids()


def _env_ids_and_files(*, prefix: str, **_: object) -> list[str]:
    from argcomplete.completers import FilesCompleter

    return [*es_envs.env_ids(), *FilesCompleter(["safetensors"])(prefix)]


def add_run_dir(sub: argparse.ArgumentParser) -> None:
    """Add the folder of the run."""
    sub.add_argument("--run-dir", metavar="DIR", help="folder of the run (default: runs/ID/DATE-TIME-sSEED)")


def config_fields(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that were given, as arguments of ``train``."""
    from es_core.config.train_config import option_fields

    names = [keyword(field.name) for field in option_fields()]
    return {name: getattr(options, name) for name in names if hasattr(options, name)}


def execution(options: argparse.Namespace) -> dict[str, Any]:
    """Return how a run is executed and shown."""
    how = {name: getattr(options, name) for name in ("max_seconds", "loggers")}
    return {**how, **pool_options(options), "progress": not options.quiet}


def chosen_episodes(options: argparse.Namespace) -> dict[str, Any]:
    """Return which episodes of which policy were chosen."""
    names = ("episodes", "seed", "generation", "candidate", "cell", "env_kwargs")
    given = {name: getattr(options, name) for name in names}
    return {**given, "trust": options.trust_names}


def add_seed(sub: argparse.ArgumentParser) -> None:
    """Add the seed of the starts."""
    sub.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed of the unseen starts (default: %(default)s)"
    )


def add_generation(sub: argparse.ArgumentParser) -> None:
    """Add the generation of a run whose policy is meant."""
    sub.add_argument("--generation", type=int, metavar="G", help="centre of this generation (default: the best)")


def add_cell(sub: argparse.ArgumentParser) -> None:
    """Add the cell of a repertoire whose policy is meant."""
    sub.add_argument("--cell", type=whole_numbers, metavar="I,J", help="policy of this cell of the run's repertoire")


def _whole_numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


# argparse says "invalid NAME value: '...'", with the function's name.
_whole_numbers.__name__ = "list of whole numbers (such as 0,5,20)"
whole_numbers: Callable[[str], list[int]] = _whole_numbers


def add_workers(sub: argparse.ArgumentParser) -> None:
    """Add the number of processes."""
    how = next(option.metadata for option in fields(PoolOptions) if option.name == "workers")
    sub.add_argument("--workers", **how)


def add_pool(sub: Parser) -> None:
    """Add the options of a pool, all but the number of processes among the settings."""
    add_workers(sub)
    group = sub.add_argument_group("rollout pool")
    for option in fields(PoolOptions):
        if option.name != "workers":
            how = {name: value for name, value in option.metadata.items() if name != "help"}
            name, text = f"--{option.name.replace('_', '-')}", option.metadata["help"]
            sub.add_setting(group, name, default=option.default, help_text=text, **how)


def pool_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a pool."""
    return {option.name: getattr(options, option.name) for option in fields(PoolOptions)}


def add_max_seconds(sub: argparse.ArgumentParser) -> None:
    """Add the bound in time, which changes no number."""
    sub.add_argument(
        "--max-seconds", type=float, metavar="S", help="stop after the generation in which this time is reached"
    )


def add_training(sub: Parser) -> None:
    """Add what says how a run is carried out."""
    add_max_seconds(sub)
    add_pool(sub)
    group = sub.add_argument_group("logs")
    sub.add_setting(
        group,
        "--logger",
        action="append",
        default=[],
        dest="loggers",
        metavar="NAME",
        help_text="also log the run to NAME: wandb (Weights & Biases); may be given several times",
    )


def add_trust(sub: argparse.ArgumentParser) -> None:
    """Add the trust that commands need which read what others may have written."""
    sub.add_argument("--trust-names", action="store_true", help=TRUST_HELP)


def add_size(sub: argparse.ArgumentParser) -> None:
    """Add the size of a film."""
    sub.add_argument("--width", type=int, metavar="PIXELS", help="width of the film (default: 640; of a grid 1280)")
    sub.add_argument("--height", type=int, metavar="PIXELS", help="height of the film (default: 480; of a grid 960)")
    sub.add_argument(
        "--aspect", choices=("16:9", "4:3", "1:1", "9:16"), help="shape of the film; its height follows (default: 4:3)"
    )


def add_source(sub: argparse.ArgumentParser, *, instead: str = "--pretrained") -> None:
    """Add the run whose policy is meant; ``instead`` names the options with which it is an environment."""
    argument = sub.add_argument(
        "source",
        metavar="RUN",
        help=f"a run folder or a checkpoint file; with {instead}, an environment's ID",
    )
    argument.completer = _env_ids_and_files  # type: ignore[attr-defined]
    sub.add_argument("--pretrained", action="store_true", help="use the policy that comes with this environment")


def add_policy(sub: argparse.ArgumentParser, episodes: int | None) -> None:
    """Add the policy, and the episodes that it plays (None: without end)."""
    add_source(sub, instead="--pretrained or --policy")
    default = "until the window is closed" if episodes is None else episodes
    sub.add_argument("--episodes", type=int, default=episodes, metavar="N", help=f"episodes (default: {default})")
    add_seed(sub)
    add_generation(sub)
    sub.add_argument("--candidate", type=int, metavar="C", help="a candidate of that generation's population")
    add_cell(sub)
    sub.add_argument(
        "--policy",
        metavar="NAME",
        dest="script",
        help="a scripted policy of this environment (`es-envs show ID` lists them), or random: random actions",
    )
    add_json(sub, "--env-kwargs", "keyword arguments of the environment that are others than in training")
    add_trust(sub)


def add_json(sub: argparse.ArgumentParser, name: str, help_text: str) -> None:
    """Add an option whose value is a dict."""
    parse, metavar = _parse(Mapping)
    sub.add_argument(name, type=parse, metavar=metavar, help=help_text)


def add_config_options(sub: Parser, shown: Sequence[str] = ()) -> None:
    """Add an option for each field of TrainConfig; one that is not given stays out of the namespace.

    Args:
        sub: the command's parser.
        shown: fields that the short help shows, too, in this order.
    """
    from es_core.config.train_config import option_fields

    known = {field.name: field for field in option_fields()}
    for name in shown:
        sub.add_argument(*_flag(known[name]), help=_help(known[name]), **_kind(known[name]))
    group = None
    for name, field in known.items():
        if group is None or field.metadata["group"]:
            group = sub.add_argument_group(f"settings: {field.metadata['group'] or 'task'}")
        if name not in shown:
            sub.add_setting(group, *_flag(field), help_text=_help(field), **_kind(field))


def add_config_option(sub: argparse.ArgumentParser, field: "Field[Any]", help_text: str) -> None:
    """Add the option for one field of TrainConfig, with a help of its own."""
    sub.add_argument(*_flag(field), help=help_text.replace("%", "%%"), **_kind(field))


def _flag(field: "Field[Any]") -> tuple[str]:
    return (f"--{keyword(field.name).replace('_', '-')}",)


def _help(field: "Field[Any]") -> str:
    default = f" (default: {field.default})" if field.default not in {None, MISSING} else ""
    return f"{field.metadata['help']}{default}".replace("%", "%%")


def _kind(field: "Field[Any]") -> dict[str, Any]:
    """Return how argparse reads the option of a field."""
    if field.type is bool or field.name == "stop_when":
        return {"action": argparse.BooleanOptionalAction, "default": argparse.SUPPRESS}
    parse, metavar = _parse(field.type, automatic=field.default == AUTO)
    return {"type": parse, "default": argparse.SUPPRESS, "metavar": metavar}


def _parse(kind: Any, *, automatic: bool = False) -> tuple[Callable[[str], Any], str]:
    """A function from an argument's text to a value of this type, and what the help calls the value.

    "none" stands for None where that is possible, "auto" for a value that the run chooses.
    """
    optional = isinstance(kind, types.UnionType)
    parts = [part for part in typing.get_args(kind) if part is not types.NoneType] if optional else [kind]
    base = parts[0] if len(parts) == 1 else object  # several kinds of values: JSON tells them apart
    origin = typing.get_origin(base) or base
    if origin is tuple and int not in typing.get_args(base):
        base = origin = object

    def parse(text: str) -> Any:
        if optional and text.lower() == "none":
            return None
        if automatic and text == AUTO:
            return text
        if origin is tuple:
            return tuple(int(part) for part in text.split(",") if part.strip())
        if base is float and "," in text:
            raise argparse.ArgumentTypeError(f"numbers have a decimal point, got {text!r}")
        return base(text) if base in {int, float, str} else _json(text)

    # argparse says "invalid NAME value: '...'", with the function's name.
    words = {
        int: ("whole number", "N"),
        float: ("number", "NUMBER"),
        str: ("text", "NAME"),
        tuple: ("list of whole numbers (such as 32,32)", "N,N"),
        Mapping: ("JSON", "NAME=VALUE,..."),
    }
    parse.__name__, metavar = words.get(origin, ("JSON", "JSON"))
    return parse, metavar


def _json(text: str) -> Any:
    """A value in JSON, or a dict written as ``name=value,name=value``, which no shell's quotes get in the way of."""
    try:
        return _pairs(text) if _NAME.match(text) else json.loads(text)
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else error
        expected = """expected name=0.5, or JSON, such as '{"name": 0.5}', with double quotes inside single ones"""
        raise argparse.ArgumentTypeError(f"{expected}; got {text!r} ({why})") from None


_NAME = re.compile(r"\s*([A-Za-z_]\w*)=")
_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}


def _pairs(text: str) -> dict[str, Any]:
    """The dict that ``name=value,name=value`` is; a list, dict or quoted text in it is JSON."""
    found: dict[str, Any] = {}
    at = 0
    while at <= len(text):
        name = _NAME.match(text, at)
        if name is None or name[1] in found:
            raise ValueError(f"{name[1]} is there twice" if name else f"no name=value at {text[at:]!r}")
        if text[name.end() : name.end() + 1] in {"[", "{", '"'}:
            value, end = json.JSONDecoder().raw_decode(text, name.end())
        else:
            end = text.find(",", name.end()) if "," in text[name.end() :] else len(text)
            value = _word(text[name.end() : end].strip())
        if text[end : end + 1] not in {"", ","}:
            raise ValueError(f"no comma at {text[end:]!r}")
        found[name[1]], at = value, end + 1
    return found


def _word(text: str) -> Any:
    """The number, truth value or text that a word is."""
    for kind in (int, float) if re.fullmatch(r"[-+.\deE]+", text) else ():
        with suppress(ValueError):
            return kind(text)
    return _WORDS.get(text, text)


def parse_search(text: str) -> tuple[str, Any]:
    """The setting that ``--search`` names, and its range as a tuple, or its values as a list."""
    from es_core.config.train_config import option_fields, unknown_field

    name, _, values = (part.strip() for part in text.partition("="))
    name = field_name(name.replace("-", "_"))
    known = {field.name: field for field in option_fields()}
    if name not in known:
        raise TypeError(unknown_field(name, set(known)))
    low, dots, high = values.partition("..")
    parse, kind = _parse(known[name].type, automatic=known[name].default == AUTO)
    try:
        if values.startswith("["):
            return name, _json(values)
        if dots and "|" not in values:
            return name, (_number(low), _number(high))
        return name, [parse(value.strip()) for value in values.split("|")]
    except (ValueError, argparse.ArgumentTypeError) as error:
        raise ValueError(
            f"--search {text}: expected {name}=LOW..HIGH with two numbers, {name}=A|B|C where each is a {kind}, or "
            f"{name}=[...] with a list in JSON ({error})"
        ) from error


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)
