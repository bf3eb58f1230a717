"""The command line ``es-envs``: results on stdout, everything else on stderr; exit codes 0, 1 (failed), 2 (usage).

Ctrl-C, SIGTERM and SIGHUP end a command in order, with exit codes 130, 143 and 129.
"""

import _thread
import argparse
import contextlib
import difflib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

import es_envs
from es_core.cli import doctor, environments, plugin, policies, reports, settings, training
from es_core.cli.output import log, log_error, stdout_for_results, tolerate_narrow_encodings
from es_core.cli.parser import Parser
from es_core.config.keywords import with_new_options
from es_core.processes.printed import stderr_apart
from es_envs import interruption
from es_envs.streams import lasting_streams, open_closed_streams
from es_envs.text import warning_line

GROUPS = {
    "begin": ("demo", "new", "list"),
    "train": ("train", "resume", "finetune", "tune", "bench"),
    "look": ("runs", "evaluate", "record", "watch", "replay", "report", "compare", "export", "collect", "adapt"),
    "environments": ("show", "check", "plugins", "robot"),
    "machine": ("doctor",),
}
"""The commands, as the help arranges them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    open_closed_streams()
    tolerate_narrow_encodings()
    with _signals_raised(), stderr_apart(), lasting_streams(), warnings.catch_warnings():
        warnings.showwarning = _show_warning
        return _exit_code(arguments)


def _end_with_stdin() -> None:
    """Interrupt this process when the one that has started it lets go of its stdin, or is gone."""
    with contextlib.suppress(OSError, ValueError):
        os.read(0, 1)
    if sys.platform == "win32":
        _thread.interrupt_main()
    else:
        os.kill(os.getpid(), signal.SIGTERM)


class _Terminated(KeyboardInterrupt):
    """SIGTERM, or SIGHUP of a terminal that was closed: what ends in order upon Ctrl-C does so upon this, too."""


def _report_discarded(discarded: "sys.UnraisableHookArgs") -> None:
    """Report an exception that Python discards, unless it is an interruption, which is raised again soon."""
    if not isinstance(discarded.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(discarded)


@contextlib.contextmanager
def _signals_raised() -> Iterator[None]:
    """Raise the first of these signals as an exception; a second one ends the process at once, as a crash would.

    What is ignored stays ignored (in the background of a script, say), and afterwards all is as it was.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # no other thread may handle signals
        return
    before = {number: signal.getsignal(number) for number in interruption.SIGNALS}
    ours = [number for number, handler in before.items() if handler not in {signal.SIG_IGN, None}]

    def interrupt(number: int, _: object) -> None:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)
        interruption.interrupt(KeyboardInterrupt() if number == signal.SIGINT else _Terminated(number))

    report, sys.unraisablehook = sys.unraisablehook, _report_discarded
    for each in ours:
        signal.signal(each, interrupt)
    try:
        yield
    finally:
        interruption.settle()
        sys.unraisablehook = report
        for each in ours:
            signal.signal(each, before[each])


def _exit_code(arguments: Sequence[str] | None) -> int:
    try:
        parser = make_parser()
        if "_ARGCOMPLETE" in os.environ:  # a shell asks how a command could go on
            import argcomplete

            argcomplete.autocomplete(parser, always_complete_options=False)
        words = list(with_new_options(sys.argv[1:] if arguments is None else arguments))
        options, unknown = parser.parse_known_args(words or ["--help"])
        if unknown:
            options.parser.error(_unrecognized(unknown, options.parser.options))
        if options.end_with_stdin:
            threading.Thread(target=_end_with_stdin, daemon=True).start()
        with stdout_for_results():
            code: int = options.command(options) or 0
        interruption.check()
    except KeyboardInterrupt as error:
        number = error.args[0] if isinstance(error, _Terminated) else signal.SIGINT
        log_error("interrupted" if number == signal.SIGINT else "terminated", error)
        return 128 + int(number)
    except (es_envs.UnknownEnvError, ValueError, TypeError) as error:
        log_error(f"error: {error}", error)
        return 2
    except MemoryError as error:
        log_error(f"error: not enough memory: {error}", error)
        return 1
    except Exception as error:
        import gymnasium

        from es_core.files import CheckpointError
        from es_core.rollout.errors import RolloutError

        if isinstance(
            error,
            es_envs.PluginError
            | CheckpointError
            | RolloutError
            | FloatingPointError
            | OSError
            | RuntimeError
            | ImportError
            | gymnasium.error.Error,  # such as that of a package which an environment needs
        ):
            log_error(f"error: {error}", error)
            return 1
        raise
    return code


def _unrecognized(words: Sequence[str], options: Sequence[str]) -> str:
    if not words[0].startswith("-"):
        return f"unexpected argument: {' '.join(words)} (names come before options)"
    sentence = f"unrecognized: {' '.join(words)}"
    bare = {option.lstrip("-"): option for option in options}  # all begin alike
    close = difflib.get_close_matches(words[0].partition("=")[0].lstrip("-"), bare, n=1)
    return f"{sentence} (did you mean {bare[close[0]]}?)" if close else sentence


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    log(warning_line(message))


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of all commands."""
    parser = Parser(
        prog="es-envs",
        usage="%(prog)s COMMAND [options]",
        description="Evolve policies for your own simulations. `es-envs COMMAND --help` explains a command.",
    )
    parser.add_argument("--version", action="version", version=f"es-envs {version('es-envs')}")
    # For a process that starts commands: they are interrupted when it closes their stdin, or is gone.
    parser.add_argument("--end-with-stdin", action="store_true", help=argparse.SUPPRESS)
    commands = parser.add_subparsers(prog="es-envs", required=True, metavar="COMMAND", help=argparse.SUPPRESS)
    for module in (environments, doctor, training, policies, reports, settings, plugin):
        module.add(commands)
    width = max(map(len, commands.choices))
    parser.epilog = "\n\n".join(
        "\n".join([f"{group}:", *(f"  {name:{width}}  {commands.choices[name].summary}" for name in names)])
        for group, names in GROUPS.items()
    )
    return parser
