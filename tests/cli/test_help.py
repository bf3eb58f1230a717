"""Help and tables in terminals: no word is broken, headings have a colour, and examples are commands that exist."""

import io
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout

import pytest

from es_core.cli import make_parser
from es_core.cli.output import log, log_next, print_result, print_table
from es_core.formatting import wrapped

COMMANDS = {"es-envs": make_parser()}
COMMANDS |= next(action.choices for action in COMMANDS["es-envs"]._actions if isinstance(action.choices, dict))
WIDTHS = range(40, 121, 4)


class Terminal(io.StringIO):
    """A terminal, which takes what is printed."""

    def isatty(self):
        return True


def printed(call, monkeypatch, stream_type=Terminal, *, no_color=""):
    """What ``call`` prints on a terminal of 80 columns, or on another kind of stream."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", no_color)
    with redirect_stdout(stream_type()) as stream, redirect_stderr(stream):
        call()
    return stream.getvalue()


def plain(text):
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def help_at(parser, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    return parser.format_help()


@pytest.mark.parametrize("command", COMMANDS)
def test_no_word_of_any_help_is_broken_at_any_width(command, monkeypatch):
    parser = make_parser()
    if command != "es-envs":
        parser = next(a.choices for a in parser._actions if isinstance(a.choices, dict))[command]
    if "--help-all" in parser.options:
        parser.show_settings()
    words = sorted(help_at(parser, 1000, monkeypatch).split())
    for columns in WIDTHS:
        lines = help_at(parser, columns, monkeypatch).splitlines()
        assert sorted(" ".join(lines).split()) == words
        for line in lines[1:]:  # one option's name and value are never divided
            assert len(line) <= columns or (len(re.split(r"\s+|, ", line.strip())) <= 4 and columns < 60)


@pytest.mark.parametrize(
    ("name", "example"), [(name, example) for name, parser in COMMANDS.items() for example in parser.examples]
)
def test_examples_in_the_help_are_commands_that_exist(name, example):
    program, *words = shlex.split(example, comments=True)
    assert (program, words[0]) == ("es-envs", name)
    COMMANDS["es-envs"].parse_args(words)
    assert len(f"  {example}") <= 80


def test_the_commands_that_people_begin_with_have_examples():
    assert all(COMMANDS[name].examples for name in ("train", "record", "evaluate", "compare", "tune", "new"))


def test_headings_have_a_colour_on_a_terminal_alone(monkeypatch):
    show = COMMANDS["train"].print_help
    assert "\x1b[1;36mexamples\x1b[0m:" in printed(show, monkeypatch)
    assert "\x1b" not in printed(show, monkeypatch, io.StringIO)
    assert "\x1b" not in printed(show, monkeypatch, no_color="1")


def test_commands_to_go_on_with_are_a_line_each_however_long(monkeypatch):
    commands = ["es-envs evaluate " + "a-long-folder/" * 8, "es-envs record 'b c'"]
    text = plain(printed(lambda: log_next(*commands), monkeypatch))
    assert text == f"Next:\n  {commands[0]}\n  {commands[1]}\n"


@pytest.mark.parametrize("show", [log, print_result])
def test_lines_are_wrapped_between_words_on_a_terminal_alone(show, monkeypatch):
    sentence = (
        "a sentence of more than some length, which ends with `es-envs train RaceCar-v0 --seed 1`, a command to copy"
    )
    first, second = printed(lambda: show(sentence), monkeypatch).splitlines()
    assert len(first) < 80
    assert second.startswith("`es-envs train RaceCar-v0 --seed 1`")
    assert printed(lambda: show(sentence), monkeypatch, io.StringIO) == f"{sentence}\n"


def test_columns_that_do_not_fit_follow_below_with_the_first(monkeypatch):
    heads = [f"a column {number}" for number in range(12)]
    rows = [heads, [f"{number} of a row" for number in range(12)]]
    text = plain(printed(lambda: print_table(rows, headed=True), monkeypatch))
    tables = [table.splitlines() for table in text.strip().split("\n\n")]
    assert len(tables) > 1
    assert max(map(len, text.splitlines())) <= 80
    assert all(table[0].startswith("a column 0") and table[1].startswith("0 of a row") for table in tables)
    assert [head for table in tables for head in re.findall(r"a column \d+", table[0])[1:]] == heads[1:]


def test_a_table_that_is_piped_is_not_divided(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    print_table([[f"a column {number}" for number in range(12)]])
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_word_that_is_too_long_has_a_line_of_its_own():
    assert wrapped("see /a/very/long/path/indeed here", 12, rest="  ") == "see\n  /a/very/long/path/indeed\n  here"
