"""The parser of commands: help that is short, wrapped between words and in colour on a terminal; errors in a line."""

import argparse
import difflib
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from es_core.cli.output import heading
from es_core.formatting import wrapped


class Formatter(argparse.HelpFormatter):
    """Help in which no word is broken, at whatever width of the terminal.

    A description or epilog may have headings (lines that end with a colon) and, indented below them, lines of a name,
    two spaces or more, and a text, which is wrapped beside the name.
    """

    def start_section(self, heading_text: str | None) -> None:
        """Begin a section, its heading in colour."""
        super().start_section(heading_text and heading(heading_text, sys.stdout))

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrapped(" ".join(text.split()), width).splitlines()

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = "\n".join(_filled(line, width) for line in text.splitlines())
        return "\n".join(f"{indent}{line}" for line in lines.splitlines())

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if isinstance(action, argparse.BooleanOptionalAction):  # both names in full would fill a line
            return action.option_strings[0].replace("--", "--[no-]", 1)
        return super()._format_action_invocation(action)


def _filled(line: str, width: int) -> str:
    """A line of a description or epilog, wrapped: a heading, a name with its text, a command or a sentence."""
    if line.endswith(":") and not line.startswith(" "):
        return f"{heading(line[:-1], sys.stdout)}:"
    name, _, text = line.strip().partition("  ")
    if text.startswith("#") and len(line) > width:  # a command, and what it does
        return "\n".join(wrapped(part, width, first="  ", rest="  ") for part in (text, name))
    hanging = len(line) - len(text.lstrip()) if text else len(line) - len(line.lstrip())
    return wrapped(line[hanging:], width, first=line[:hanging], rest=" " * hanging)


class Parser(argparse.ArgumentParser):
    """A parser whose help and errors are short: some commands have eighty options.

    It takes no abbreviations of options, which the next option that is added could make ambiguous. Settings, which
    ``add_setting`` adds, are in the help of ``--help-all`` alone.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(**{"allow_abbrev": False, "formatter_class": Formatter, **how})
        self.color = False  # argparse's own colours, from Python 3.14 on
        self.summary = ""  # of a command, for the help of the whole program
        self.examples: tuple[str, ...] = ()  # commands, each with what it does behind a #
        self._settings: list[tuple[argparse.Action, str]] = []

    def add_setting(self, group: Any, *names: str, help_text: str, **how: Any) -> None:
        """Add an option to a group that only ``--help-all`` shows."""
        if not self._settings:
            self.add_argument("--help-all", action=_HelpAll, nargs=0, help="show all settings and exit")
            self.epilog = f"All settings: `{self.prog} --help-all`"
        self._settings.append((group.add_argument(*names, help=argparse.SUPPRESS, **how), help_text))

    def show_settings(self) -> None:
        """Show the settings in the help, too."""
        for action, text in self._settings:
            action.help = text
        self.epilog = "Settings have these defaults unless the strategy or the environment sets others."

    def format_help(self) -> str:
        """The help, with a usage of one line, and examples at its end."""
        if self.usage is None:
            names = [str(action.metavar or action.dest) for action in self._actions if not action.option_strings]
            self.usage = " ".join(["%(prog)s", *names, "[options]"])
        whole = self.epilog
        examples = "\n".join(["examples:", *(f"  {example}" for example in self.examples)]) if self.examples else None
        self.epilog = "\n\n".join(part for part in (examples, whole) if part) or None
        try:
            return super().format_help()
        finally:
            self.epilog = whole

    @property
    def options(self) -> list[str]:
        """All options that it takes, such as ``--seed``."""
        return [name for action in self._actions for name in action.option_strings]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse the name of a command that does not exist; argparse itself would list them all."""
        if isinstance(action.choices, Mapping) and value not in action.choices:
            close = difflib.get_close_matches(value, action.choices, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise argparse.ArgumentError(None, f"there is no command {value!r}{hint}")
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        """End the process with exit code 2."""
        self.exit(2, f"error: {message}; `{self.prog} --help` lists the options\n")


class _HelpAll(argparse.Action):
    """Shows all settings, and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        if isinstance(parser, Parser):
            parser.show_settings()
        parser.print_help()
        parser.exit()
