"""The hash of a function or class that no module holds: what changes it, and what does not."""

import itertools
import linecache
import textwrap

import pytest

from es_envs.code_hash import code_hash, is_comparable

SOURCE = """
    import dataclasses
    import functools
    import math
    import numpy as np

    weight = 2.0
    table = {"near": [1.0, 2.0], "far": np.arange(3)}
    unused = 1

    def helper(episode, scale=1.0):
        return weight * scale * math.sqrt(abs(episode.total_reward))

    @dataclasses.dataclass
    class Goal:
        x: float = 0.0
        parts: list = dataclasses.field(default_factory=list)

        @property
        def distance(self):
            return abs(self.x)

        @staticmethod
        def names():
            return {"a", "b", "c", "d"}

    class Base:
        def base(self):
            return len(self.goals)

    class Fitness(Base):
        def __init__(self):
            super().__init__()
            self.goals = [Goal(1.0)]

        def on_step(self, observation, action, reward, info):
            self.last = [info.get(name) for name in ("a", "b") if name in {"a", "b", "c"}]

        def result(self, episode):
            return helper(episode) + self.base() + sum(table["near"])

    def made(offset):
        @functools.cache
        def fitness(episode):
            return fitness.cache_info().hits + helper(episode) + offset
        return fitness

    chosen = [Fitness, made(3), functools.partial(helper, scale=3.0), lambda episode: helper(episode) - weight]
"""


CELLS = itertools.count()


def defined(source, *, known=True):
    """What a script or notebook chooses; if its source is not ``known``, as one that comes through a pipe."""
    source, namespace = textwrap.dedent(source), {"__name__": "__main__"}
    name = f"<cell {next(CELLS)}>" if known else "<string>"
    if known:
        linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    exec(compile(source, name, "exec"), namespace)
    return namespace["chosen"]


def hashes(source, *, known=True):
    return [code_hash(each) for each in defined(source, known=known)]


BEFORE = {known: hashes(SOURCE, known=known) for known in (True, False)}


def test_equal_source_has_equal_hashes_in_every_process_and_place(python, tmp_path):
    moved = "# a comment\n\n\n" + textwrap.dedent(SOURCE).replace("(episode, scale", "(episode,  scale").replace(
        "unused = 1", "unused = 2  # by what is chosen"
    )
    moved = moved.replace("    return weight", "    # a comment\n    return weight")
    code = f"{moved}\nfrom es_envs.code_hash import code_hash\nprint([code_hash(each) for each in chosen])"
    script = tmp_path / "script.py"
    script.write_text(code, encoding="utf-8")
    run = f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    assert len({*BEFORE[True], *BEFORE[False]}) == 8
    for seed in "1", "2":
        for known, how in (True, {"code": run}), (False, {"stdin": code, "arguments": ["-"]}):
            done = python(**how, environment={"PYTHONHASHSEED": seed})
            assert done.out.strip() == str(BEFORE[known]), done.err


@pytest.mark.parametrize(
    ("then", "now", "changed"),
    [
        ("factory=list", "factory=dict", [0]),
        ("weight = 2.0", "weight = 2.5", [0, 1, 2, 3]),
        ("weight * scale", "weight + scale", [0, 1, 2, 3]),
        ("scale=1.0", "scale=1.5", [0, 1, 2, 3]),
        ("math.sqrt", "math.log", [0, 1, 2, 3]),
        ("[1.0, 2.0]", "[1.0, 3.0]", [0]),
        ("np.arange(3)", "np.arange(4)", [0]),
        ("x: float = 0.0", "x: float = 1.0", [0]),
        ("abs(self.x)", "self.x", [0]),
        ('{"a", "b", "c", "d"}', '{"a", "b", "c", "e"}', [0]),
        ("len(self.goals)", "len(self.goals) + 1", [0]),
        ("made(3)", "made(4)", [1]),
        (".hits", ".misses", [1]),
        ("scale=3.0", "scale=4.0", [2]),
        ("- weight", "+ weight", [3]),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_a_change_of_what_is_computed_changes_the_hash(then, now, changed, known):
    assert then in SOURCE
    after = hashes(SOURCE.replace(then, now), known=known)
    assert [number for number in range(4) if after[number] != BEFORE[known][number]] == changed


def test_every_version_of_python_gives_source_the_same_hash():
    source = """
        import abc, collections, dataclasses, enum, typing

        Point = collections.namedtuple("Point", "x y")

        class Side(enum.Enum):
            LEFT = 1

        class Pair(typing.NamedTuple):
            first: Side = Side.LEFT

        @dataclasses.dataclass(frozen=True)
        class Goal:
            x: float = 0.0
            parts: list[int] = dataclasses.field(default_factory=list)

            def __call__(self, scale: "float" = 1.0) -> str:
                return f"{self.x:{'.2f'}} {[x for x in self.parts if x in {1, 2}]}"

        class Base(abc.ABC):
            @abc.abstractmethod
            def base(self) -> "Base": ...

        class Fitness(Base):
            limit: int = 3

            def base(self) -> "Base":
                def inner(goal: Goal = Goal(2.0)) -> tuple[Point, Pair]:
                    return Point(1, 2), Pair()
                return inner()

        chosen = [Fitness, Goal, Side, Point, Pair, lambda episode: episode.length if episode else Goal(1.0)]
    """
    expected = ["se0e9715a", "s69f8bbbe", "sb4d19e12", "s266a3460", "s3d42f4f6", "sb17c9a87"]
    assert hashes(source) == expected


def test_functions_on_one_line_have_different_hashes():
    one, two, outer, other, inner = hashes(
        "chosen = [lambda e: 1, lambda e: 2, lambda e: lambda e: 1, lambda x: lambda e: x, (lambda x: lambda e: 1)(0)]"
    )
    assert len({one, two, outer, other}) == 4
    assert inner == one


def test_hashes_of_older_versions_are_not_compared():
    assert is_comparable(f"__main__:f#{BEFORE[True][0]}")
    assert is_comparable(f"local/Env-{BEFORE[True][0]}-v0")
    assert not is_comparable("__main__:f#0123abcd")
    assert not is_comparable("local/Env-0123abcd-v0")


def test_spaces_may_be_printed_and_drawn_from():
    source = """
        import numpy as np
        from gymnasium import spaces

        class Env:
            observation_space = spaces.Dict(place=spaces.Box(np.float32([-1, -2]), np.float32([1, 2])))
            action_space = spaces.Discrete(3)

        chosen = [Env]
    """
    (env,) = defined(source)
    before = code_hash(env)
    str(env.observation_space), env.observation_space.sample(), env.action_space.seed(1)
    assert [code_hash(env)] == [before] == hashes(source)
    assert hashes(source.replace("[1, 2]", "[1, 3]")) != [before] != hashes(source.replace("(3)", "(4)"))


def test_functions_that_call_each_other_have_a_hash():
    source = """
        def even(n): return n == 0 or odd(n - 1)
        def odd(n): return n != 0 and even(n - 1)
        chosen = [even]
    """
    assert hashes(source) == hashes(source) != hashes(source.replace("n != 0", "n > 0"))


@pytest.mark.parametrize(
    ("fitness", "message"),
    [
        ("def chosen(episode): return log.write('x')", "'chosen' uses 'log', of <class '_io.TextIOWrapper'>, which"),
        (
            "def chosen(episode): return helper()",
            "'chosen' uses 'helper', which uses 'lock', of <class '_thread.lock'>",
        ),
        ("class chosen:\n    own = Holder()", "'chosen' uses 'own', which uses 'lock', of"),
        ("chosen = Holder().method", "'Holder.method' uses 'lock', of"),
        (
            "chosen = lambda episode: (yield_ for yield_ in running)",
            "'<lambda>' uses 'running', of <class 'generator'>",
        ),
    ],
)
def test_objects_that_cannot_be_copied_are_refused_by_their_variables_name(tmp_path, fitness, message):
    begin = f"""
import threading
log = open({str(tmp_path / "log")!r}, "w")
lock = threading.Lock()
running = (each for each in [1])
class Holder:
    def __init__(self): self.lock = threading.Lock()
    def method(self, episode): return 0.0
def helper():
    with lock: return 0.0
"""
    namespace = {"__name__": "__main__"}
    exec(begin + fitness, namespace)
    with namespace["log"], pytest.raises(ValueError, match=message):
        code_hash(namespace["chosen"])
