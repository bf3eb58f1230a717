"""What tests share: tests/ on ``sys.path`` for workers to find its modules, environments for one test, deadlines."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

import es_envs
from es_core.processes.forker import Forker
from es_core.seeding import Purpose, episode_seeds
from es_core.strategies import by_name
from es_core.strategies.by_name import find_strategy
from es_envs import EnvDefinition, registry

TESTS = Path(__file__).parent
sys.path.insert(0, str(TESTS))

# Tests start processes by the hundred, and each would compile anew all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell: what tests start would ignore it
    signal.signal(signal.SIGINT, signal.default_int_handler)

TINY = {
    "generations": 1,
    "population_size": 2,
    "eval_episodes": 1,
    "eval_budget": None,
    "confirm_episodes": 1,
    "hidden_sizes": (),
    "workers": 1,
    "progress": False,
}
"""Arguments of ``train`` for the smallest run there is."""

FAILING_RUN = {
    "generations": 3,
    "population_size": 20,
    "episodes_per_candidate": 2,
    "episode_seeds": "independent",
    "eval_episodes": 2,
    "eval_budget": None,
    "confirm_episodes": 3,
    "policy": "mlp",
    "hidden_sizes": (8,),
    "sigma": 0.3,
    "observation_normalization": True,
    "action_noise": 0.1,
    "fitness": "final_info:score",
    "engine": "compiled",
}
"""Settings of a run in ``small_envs.Failing``: with all that differs from candidate to candidate."""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Leave neighbouring tests to one process: they share the runs and the forker of their module."""
    if config.getoption("numprocesses", None) and config.option.dist == "no":
        config.option.dist = "worksteal"


def pytest_addoption(parser):
    """Take turns: ``--part K/N``."""
    parser.addoption(
        "--part",
        type=lambda text: [int(number) for number in text.split("/", 1)],
        metavar="K/N",
        help="of the selected tests, only every Nth, beginning with number K modulo N: N such parts are all of them",
    )


@pytest.hookimpl(trylast=True)  # after -m and -k have selected
def pytest_collection_modifyitems(config, items):
    """Give slow and long tests more than the usual time, and leave out those of which it is not the turn."""
    for item in items:
        if item.get_closest_marker("slow") or item.get_closest_marker("long"):
            item.add_marker(pytest.mark.timeout(900))
    if part := config.getoption("part"):
        turn, parts = part
        config.hook.pytest_deselected(items=[item for place, item in enumerate(items) if (place - turn) % parts])
        items[:] = items[turn % parts :: parts]


# Words of errors by the module that is not installed here, such as Bullet for the newest Python.
LACKING = {
    module: words
    for module, words in {
        # The environments of the plugins that come with the project need it.
        "pybullet": r"needs Bullet|No module named 'pybullet|(Bullet|SwingUp|Pole|Plate|Eight|Maze|Car|Track)-v0",
        "torch": r"No module named 'torch'|es-envs\[torch\]",
        "cv2": r"No module named 'cv2'|es-envs\[image\]",
        "es_stable_baselines3": r"es-envs\[rl\]",
        "optuna": r"No module named 'optuna'|es-envs\[tune\]",
        "onnxscript": r"es-envs\[export\]",
        "onnxruntime": "No module named 'onnxruntime'",
        "minari": r"es-envs\[minari\]",
        "tensorboard": "No module named 'tensorboard'|TensorBoard",
        "argcomplete": "register-python-argcomplete",
    }.items()
    if find_spec(module) is None
}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Skip a test that meets what is not installed: where all is installed, as in CI, it would have failed."""
    report = yield
    if report.failed:
        said = f"{report.longrepr}{report.capstdout}{report.capstderr}"
        for module, words in LACKING.items():
            if re.search(words, said):
                report.outcome, report.longrepr = "skipped", (*item.location[:2], f"{module} is not installed")
                break
    return report


STRATEGIES = {
    name: strategy
    for name in (*by_name.STRATEGIES, *registry.strategies())
    if not (strategy := find_strategy(name)).keeps_repertoire or find_spec("ribs")
}
"""The strategies of ours that can be used here, and those of the plugins that are installed."""


def options_for(strategy, axes=2):
    """Settings that a strategy needs where the environment names no ranges for the numbers of its behaviour."""
    if not STRATEGIES[strategy].keeps_repertoire:
        return {}
    ranges = [[f"number {axis}", -100, 100] for axis in range(axes)]
    return {"strategy_options": {"ranges": ranges}, "observation_normalization": False}


# One of each plugin first: tests that take long for each environment leave all others to the long round.
_FIRST = ("CartPoleBullet-v0", "HopperBullet-v0", "RaceTrack-v0", "BalancingPlate-v0")
ENV_IDS = [*_FIRST, *(env_id for env_id in es_envs.env_ids() if env_id not in _FIRST)]


def first_fast(cases, fast=1):
    """Parameters: the first few for the fast round, two more for the slow round, and all others for the long one."""
    cases = list(cases)
    rest = [case if isinstance(case, tuple) else (case,) for case in cases[fast:]]
    marks = [pytest.mark.slow] * 2 + [pytest.mark.long] * len(rest)
    return [*cases[:fast], *(pytest.param(*case, marks=mark) for case, mark in zip(rest, marks, strict=False))]


def seed_of(candidate, generation=0, settings=FAILING_RUN):
    """The last episode seed of a candidate of such a run, as text."""
    each = settings["episodes_per_candidate"]
    count = settings["population_size"] * each
    return str(episode_seeds(0, Purpose.TRAINING, count, generation)[each * candidate + each - 1])


@contextlib.contextmanager
def running(words, **options):
    """A process that does not outlive the context, however that ends."""
    with subprocess.Popen(words, **options) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def started(words, **options):
    """A process and those it starts, which have a mark of its own in their environment; none outlives the test."""
    mark = uuid.uuid4().hex

    def marked():
        return [process for process in psutil.process_iter() if has_mark(process)]

    def has_mark(process):
        try:
            return process.environ().get("ES_ENVS_TEST") == mark and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    environment = {**os.environ, "ES_ENVS_TEST": mark, **options.pop("environment", {})}
    process = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True, **options)
    try:
        yield process, marked
    finally:
        for left in marked():
            left.kill()
        process.communicate()


def require_gone(marked, seconds=5):
    """Some seconds later none is alive. (One that has ended may still be listed: its new parent takes its time.)"""
    deadline = time.monotonic() + seconds
    while left := marked():
        assert time.monotonic() < deadline, f"these are left: {left}"
        time.sleep(0.02)


def wait_until(condition, process, *, seconds=120):
    """Wait until ``condition()`` holds; fail once the process has ended, or the time is up."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, f"the process ended early, with exit code {process.returncode}"
        assert time.monotonic() < deadline, f"not within {seconds} seconds"
        time.sleep(0.02)


def forker_of(process=None):
    """The process from which the workers of ``process`` (by default this one) are forked; None: they are not."""
    return next((child for child in _children(process) if "es_core.processes.forker" in "".join(child.cmdline())), None)


def workers_of(process=None):
    """The workers of ``process``, by default of this one."""
    forker = forker_of(process)
    return [*(child for child in _children(process) if child != forker), *(forker.children() if forker else ())]


def _children(process):
    return _started(psutil.Process(None if process is None else process.pid).children())


def left_behind():
    """Processes that this one has started, and their own."""
    return _started(psutil.Process().children(recursive=True))


def _started(found):
    """Those of them that live, without the one by which multiprocessing keeps track of shared memory."""
    alive = [child for child in found if child.status() != psutil.STATUS_ZOMBIE]
    return [child for child in alive if "resource_tracker" not in "".join(child.cmdline())]


def generations(folder):
    """How many generations of the run in ``folder`` have their line."""
    metrics = Path(folder) / "metrics.jsonl"
    return metrics.read_text(encoding="utf-8").count("\n") if metrics.exists() else 0


@contextlib.contextmanager
def registered(env_id="Walk-v0", entry_point="small_envs:Walk", **fields):
    """Register an environment as plugin "walking" would, for the length of the context."""
    fields = {"max_episode_steps": 5, "plugin": "walking", **fields}
    definition = EnvDefinition(id=env_id, entry_point=entry_point, **fields)
    es_envs.env_ids()  # plugins are discovered before the table is patched
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry._registry._definitions, env_id, definition)
        yield definition


@pytest.fixture(autouse=True)
def environments():
    """What a test registers goes with it: a class that it trains in is none of the environments of the next one."""
    es_envs.env_ids()  # plugins are discovered before the table is patched
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry._registry, "_definitions", dict(registry._registry._definitions))
        yield


class SharedForker(Forker):
    """A forker that outlives its pools: to start one takes as long as the smallest run."""

    def __init__(self):
        self.where = surroundings()
        super().__init__()

    def close(self):
        """Stay for the next pool."""

    def end(self):
        super().close()


def surroundings():
    """What a process inherits from this one when it starts."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    return Path.cwd(), tuple(sys.path), variables


@pytest.fixture(scope="module", autouse=True)
def forkers(request):
    """Pools share one forker, unless the module says ``OWN_FORKERS = True``, since it looks at processes."""
    if getattr(request.module, "OWN_FORKERS", False):
        yield
        return
    shared = []

    def forker():
        if shared and (shared[0].reason is not None or shared[0].where != surroundings()):
            shared.pop().end()
        if not shared:
            shared.append(SharedForker())
        return shared[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("es_core.processes.forker.Forker", forker)
        yield
    for each in shared:
        each.end()


@pytest.fixture(scope="module")
def tiny():
    """Arguments of ``train`` for the smallest run there is."""
    return TINY


@pytest.fixture(scope="module")
def walk():
    """The id of ``small_envs.Walk``, registered for the length of the module."""
    with registered() as definition:
        yield definition.id


@pytest.fixture
def register():
    """``register(id, entry_point, **fields)``: an environment for the length of the test; returns its id."""
    with contextlib.ExitStack() as stack:
        yield lambda *values, **fields: stack.enter_context(registered(*values, **fields)).id


@pytest.fixture
def wander(register):
    """The id of ``small_envs.Wander``, whose episodes differ in length."""
    return register("Wander-v0", "small_envs:Wander", fitness="episode_return", max_episode_steps=30)


@pytest.fixture(scope="session")
def python():
    """``python(code, ...)``: run code in a process of its own; stdout, stderr and the exit code.

    Without code: the script that ``arguments`` name, or what comes through ``stdin``.
    """

    def run(code=None, *, path=(), stdin=None, environment=None, arguments=(), cwd=None):
        words = [sys.executable, *([] if code is None else ["-c", code]), *arguments]
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*path, TESTS])), **(environment or {})}
        done = subprocess.run(
            words, input=stdin, capture_output=True, text=True, check=False, env=variables, cwd=cwd, timeout=120
        )
        return SimpleNamespace(out=done.stdout, err=done.stderr, code=done.returncode)

    return run
