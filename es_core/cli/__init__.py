"""The command line ``es-envs``: results on stdout, everything else on stderr; exit codes 0, 1 (failed), 2 (usage).

Ctrl-C and SIGTERM end a command in order, with exit codes 130 and 143.
"""

import argparse
import contextlib
import difflib
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

import es_envs
from es_core.cli import doctor, environments, plugin, policies, reports, settings, training
from es_core.cli.arguments import Parser
from es_core.cli.output import say, say_error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    with _signals_raised(), warnings.catch_warnings():
        warnings.showwarning = _show_warning
        return _exit_code(arguments)


class _Terminated(KeyboardInterrupt):
    """SIGTERM: what ends in order upon Ctrl-C does so upon this, too."""


@contextlib.contextmanager
def _signals_raised() -> Iterator[None]:
    """Raise the first SIGINT or SIGTERM as an exception; a second one ends the process at once, as a crash would.

    What is ignored stays ignored (in the background of a script, say), and afterwards all is as it was.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # no other thread may handle signals
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ours = [number for number, handler in before.items() if handler not in {signal.SIG_IGN, None}]

    def interrupt(number: int, _: object) -> None:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)
        raise _Terminated if number == signal.SIGTERM else KeyboardInterrupt

    for each in ours:
        signal.signal(each, interrupt)
    try:
        yield
    finally:
        for each in ours:
            signal.signal(each, before[each])


def _exit_code(arguments: Sequence[str] | None) -> int:
    try:
        parser = _parser()
        if "_ARGCOMPLETE" in os.environ:  # a shell asks how a command could go on
            import argcomplete

            argcomplete.autocomplete(parser, always_complete_options=False)
        options, unknown = parser.parse_known_args(arguments)
        if unknown:
            options.parser.error(_unrecognized(unknown, options.parser.format_usage()))
        code: int = options.command(options) or 0
        sys.stdout.flush()
    except KeyboardInterrupt as error:
        terminated = isinstance(error, _Terminated)
        say_error("terminated" if terminated else "interrupted", error)
        return 128 + (signal.SIGTERM if terminated else signal.SIGINT)
    except BrokenPipeError:  # the reader of our output, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (es_envs.UnknownEnvError, ValueError, TypeError) as error:
        say_error(f"error: {error}", error)
        return 2
    except MemoryError as error:
        say_error(f"error: not enough memory: {error}", error)
        return 1
    except Exception as error:
        from es_core.checkpoint import CheckpointError
        from es_core.rollout import RolloutError

        if isinstance(
            error, es_envs.PluginError | CheckpointError | RolloutError | OSError | RuntimeError | ImportError
        ):
            say_error(f"error: {error}", error)
            return 1
        raise
    return code


def _unrecognized(words: Sequence[str], usage: str) -> str:
    said = f"unrecognized: {' '.join(words)}"
    if not words[0].startswith("-"):
        return f"{said} (one name too many, or behind an option: names come first)"
    close = difflib.get_close_matches(words[0].partition("=")[0], re.findall(r"--[\w-]+", usage), n=1)
    return f"{said} (did you mean {close[0]}?)" if close else said


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    say(f"warning: {message}")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="es-envs", description="Evolve policies for your own simulations.")
    parser.add_argument("--version", action="version", version=f"es-envs {version('es-envs')}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for module in (environments, doctor, training, policies, reports, settings, plugin):
        module.add(commands)
    return parser
