"""Whatever is typed or passed: it works, or is refused with one of the documented errors, in a sentence."""

import contextlib
import io
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from written import nested

from es_core import TrainConfig
from es_core.cli import main
from es_core.config.keywords import keyword
from es_core.config.train_config import option_fields
from es_envs import EnvDefinition, PluginError, UnknownEnvError
from es_envs.registry import Registry

NAMES = [field.name for field in fields(TrainConfig)]

words = st.sampled_from([
    "", "\0", "mlp", "linear", "none", "nan", "adam", "ars", "cma_es", "tanh", "median", "cuda", "no_such:Thing", "-1",
    "Ä",
])  # fmt: skip
numbers = st.one_of(
    st.sampled_from([0, -1, 1, 2, 3, 10**9, 2**63, 10**400, -(10**400), 0.0, 1e308, float("nan"), float("inf")]),
    st.integers(),
    st.floats(),
)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, words, st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=6,
)


class Unshowable:
    def __repr__(self):
        raise RuntimeError("not today")


objects = st.sampled_from([np.float32(1), np.int64(3), np.zeros(3), np.array("mean"), object, {1, 2}, b"bytes"])
values = st.one_of(json_values, st.tuples(numbers), objects)
absurdities = st.sampled_from([Unshowable(), nested(60), nested(2_000), {"a": nested(2_000)}, (1, (2, 3))])
settings_of_a_run = st.dictionaries(st.sampled_from(NAMES), st.one_of(values, values, absurdities), max_size=3)


EXAMPLES = pytest.mark.parametrize("examples", [100, pytest.param(5000, marks=pytest.mark.long)])


def fuzz(check, examples, **what):
    """Call ``check`` with random arguments; always the same ones."""
    settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )(given(**what)(check))()


def insist_sentence(error, *names):
    """An error says something, names one of what is at fault, and is not as long as what was passed."""
    text = str(error)
    assert 10 < len(text) < 3000
    assert not names or any(name in text for name in names), text


def build_a_config(chosen):
    try:
        config = TrainConfig(**{"env_id": "CartPole-v1", **chosen})
    except ValueError as error:
        insist_sentence(error, *chosen)
        return
    assert TrainConfig.from_json(config.to_json()) == config


def resolve_a_config(env_id, chosen):
    try:
        config = TrainConfig.for_env(env_id, **{name: value for name, value in chosen.items() if name != "env_id"})
    except (ValueError, TypeError, UnknownEnvError, PluginError) as error:
        insist_sentence(error)
        return
    assert config.resolved() == config


def read_a_config(document, chosen, left_out):
    described = TrainConfig(env_id="CartPole-v1").to_json() if document is None else document
    if isinstance(described, dict):
        described = {name: value for name, value in {**described, **chosen}.items() if name not in left_out}
    try:
        config = TrainConfig.from_json(described)
    except ValueError as error:
        insist_sentence(error)
        return
    assert TrainConfig.from_json(config.to_json()) == config


DEFINITION = {field.name: field for field in fields(EnvDefinition)}
definitions = st.fixed_dictionaries(
    {
        "id": st.one_of(st.from_regex(r"([\w-]+/)?\w+(-v\d)?", fullmatch=True), words, values),
        "entry_point": st.one_of(st.sampled_from(["small_envs:Walk", "small_envs:Nothing", "no_such:Env"]), values),
    },
    optional={name: values for name, field in DEFINITION.items() if name not in {"id", "entry_point"}},
)


def register_an_environment(described, wanted):
    registry = Registry(found=[])
    try:
        definition = EnvDefinition(**described)
    except (ValueError, TypeError) as error:
        insist_sentence(error)
    else:
        registry.register(definition)
        assert registry.env_ids() == [definition.id]
        assert registry.definition(definition.id) == definition
    if isinstance(wanted, str) and ":" in wanted:
        wanted = f"no_such_module_at_all.{wanted}"
    try:
        registry.definition(wanted)
    except (UnknownEnvError, TypeError) as error:
        insist_sentence(error)


# What follows each command: nothing here may train for long, since a folder with something in it is refused.
FLAGS = sorted(
    {f"--{keyword(field.name).replace('_', '-')}" for field in option_fields()}
    | {"--json", "--quiet", "--workers", "--pool", "--initial", "--max-seconds", "--episodes", "--seed", "--generation"}
    | {"--width", "--height", "--fps", "--seconds", "--trust-names", "--search", "--trials", "--seeds", "--help", "--x"}
)
COMMANDS = [
    "list", "show", "check", "plugins", "train", "resume", "evaluate", "record", "bench", "tune", "demo", "x", "",
]  # fmt: skip
arguments = st.lists(
    st.one_of(
        st.sampled_from(FLAGS),
        st.tuples(st.sampled_from(FLAGS), words).map("=".join),
        words,
        st.integers().map(str),
        st.sampled_from(["CartPole-v1", "NoSuch-v0", "full", "full/file", "absent", "32,32"]),
        st.sampled_from(['{"a": NaN}', "[" * 50_000, "9" * 5_000]),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    ),
    max_size=5,
)


def type_a_command(command, rest):
    unknown = ["NoSuch-v0"]
    guards = {"check": unknown, "bench": unknown, "tune": unknown, "train": ["--run-dir", "full"]}
    guards["demo"] = guards["train"]
    if guards.get(command) is unknown:
        rest = [word for word in rest if word != "CartPole-v1"]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([command, *rest, *guards.get(command, [])])
        except SystemExit as end:
            code = end.code
    assert code in {0, 1, 2}
    assert "Traceback" not in err.getvalue()
    assert code == 0 or err.getvalue().strip()


@pytest.fixture
def folder(tmp_path):
    """Where commands are typed: a folder with a folder that has something in it."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("text")
    with contextlib.chdir(tmp_path):
        yield
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "full"]  # nobody has made anything


env_ids = st.one_of(
    st.sampled_from(["CartPole-v1", "Walk-v0", "NoSuch-v0", "", None, 3]), st.text("abc/-v0é", max_size=8)
)


@EXAMPLES
def test_a_config_is_built_or_refused(examples):
    fuzz(build_a_config, examples, chosen=settings_of_a_run)


@pytest.mark.slow
@EXAMPLES
def test_settings_of_an_environment_are_resolved_or_refused(examples, walk):
    fuzz(resolve_a_config, examples, env_id=env_ids, chosen=settings_of_a_run)


@EXAMPLES
def test_a_config_is_read_or_refused(examples):
    fuzz(
        read_a_config,
        examples,
        document=st.one_of(st.none(), st.none(), json_values),
        chosen=st.dictionaries(st.sampled_from([*NAMES, "surprise"]), json_values, max_size=2),
        left_out=st.sets(st.sampled_from(NAMES), max_size=1),
    )


@pytest.mark.slow
@EXAMPLES
def test_an_environment_is_registered_or_refused(examples):
    fuzz(
        register_an_environment,
        examples,
        described=definitions,
        wanted=st.one_of(words, values, st.text(max_size=8)),
    )


@EXAMPLES
def test_a_command_is_carried_out_or_refused(examples, folder):
    fuzz(type_a_command, examples, command=st.sampled_from(COMMANDS), rest=arguments)
