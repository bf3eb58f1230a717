"""Runs on a Ray cluster, of several nodes on this machine: the same bits as on one machine, whatever happens to it."""

import contextlib
import itertools
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from conftest import FAILING_RUN, TESTS, generations, registered, running, seed_of, wait_until
from written import FAULTS, lines

from es_core import Run, train, train_seeds, tune
from es_core.cli import main

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="Ray's clusters need Linux or macOS"),
    # Ray leaves its processes and sockets to the end of this one.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

SETTINGS = {**FAILING_RUN, "checkpoint_every": 1, "progress": False}


class Nodes:
    """A Ray cluster on this machine. The head has four CPUs, every further node two."""

    def __init__(self):
        from ray.cluster_utils import Cluster

        quick = {
            "health_check_initial_delay_ms": 500,
            "health_check_period_ms": 500,
            "health_check_failure_threshold": 3,
        }
        with environment(PYTHONPATH=str(TESTS)):
            self._cluster = Cluster()
            self._cluster.add_node(num_cpus=4, include_dashboard=False, _system_config=quick)
        self.address = self._cluster.address
        self.head = self._cluster.head_node.all_processes["raylet"][0].process.pid

    def add(self, **variables):
        with environment(PYTHONPATH=str(TESTS), **variables):
            return self._cluster.add_node(num_cpus=2)

    def remove(self, node):
        with contextlib.suppress(Exception):  # it may be dead
            self._cluster.remove_node(node, allow_graceful=False)

    def close(self):
        import ray

        ray.shutdown()
        self._cluster.shutdown()


@contextlib.contextmanager
def environment(**variables):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def nodes():
    nodes = Nodes()
    yield nodes
    nodes.close()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A run of the local pool."""
    with registered("Marked-v0", "small_envs:Marked", max_episode_steps=30) as env:
        folder = tmp_path_factory.mktemp("runs")
        return content(train(env.id, run_dir=folder / "r", workers=2, env_kwargs={"marks": str(folder)}, **SETTINGS))


def content(run):
    """All that a run says, but for times, paths and what went wrong; and the bits of all its checkpoints."""
    history = lines(run, *FAULTS)
    means = [run.checkpoint_at(generation) for generation in run.checkpoint_generations()]
    assert len(means) == len(history) == 4
    assert len({stats["parameter_hash"] for stats in history}) > 1, "the centre should move, or this shows nothing"
    return history, [(each.mean.tobytes(), each.statistics.total.tobytes()) for each in means]


def ray_run(nodes, folder, name="r", *, kwargs=None, **how):
    """A run on the cluster, and by whom its environments were made: pids of the actors, and of their nodes."""
    marks = folder / f"marks-{name}"
    marks.mkdir()
    settings = {**SETTINGS, **how}
    run = train(
        "Marked-v0",
        run_dir=folder / name,
        pool="ray",
        ray_address=nodes.address,
        env_kwargs={"marks": str(marks), **(kwargs or {})},
        **settings,
    )
    return run, actors(marks)


def actors(marks):
    """By whom environments were made: the pids of actors, and for each that of its node."""
    found = {}
    for mark in marks.iterdir():
        parents = json.loads(mark.read_text(encoding="utf-8"))
        for (actor, title), (node, _) in itertools.pairwise(parents):
            if title.startswith("ray::Host"):
                found[actor] = node
    return found


@pytest.fixture
def env(register):
    return register("Marked-v0", "small_envs:Marked", max_episode_steps=30)


@pytest.mark.parametrize(
    ("count", "workers"),
    [(1, 2), *(pytest.param(*each, marks=pytest.mark.long) for each in ((1, 1), (1, 4), (3, 1), (3, 2), (3, 4)))],
)
def test_a_run_on_a_cluster_ends_with_the_bits_of_the_local_pool(count, workers, nodes, env, undisturbed, tmp_path):
    more = [nodes.add() for _ in range(count - 1)]
    try:
        run, where = ray_run(nodes, tmp_path, workers=workers)
    finally:
        for node in more:
            nodes.remove(node)
    assert content(run) == undisturbed
    assert len(where) == min(workers, count), "an actor for each node"
    assert len(set(where.values())) == len(where)
    deadline = time.monotonic() + 20
    while any(map(psutil.pid_exists, where)):
        assert time.monotonic() < deadline, "actors end with the run"
        time.sleep(0.1)


@pytest.mark.parametrize("fault", [pytest.param("kill in step", marks=pytest.mark.long), "kill the actor in step"])
def test_a_worker_that_dies_in_the_middle_of_a_generation_leaves_no_trace(fault, nodes, env, undisturbed, tmp_path):
    once = tmp_path / "once"
    once.mkdir()
    faults = {seed_of(5): fault}
    replaced = r"Marked-v0 \(plugin 'walking'\): (a worker is|3 workers are) replaced"
    with pytest.warns(RuntimeWarning, match=replaced) as caught:
        run, where = ray_run(nodes, tmp_path, workers=3, kwargs={"faults": faults, "once": str(once), "nap": 0.005})
    assert {path.name for path in once.iterdir()} == set(faults)
    assert content(run) == undisturbed
    said = [match[1] for each in caught if (match := re.match(replaced, str(each.message)))]
    # On a busy machine Ray may give the actor a single CPU; then a single worker is replaced, and others have the rest.
    expected = 3 if "actor" in fault and said == ["3 workers are"] else 1
    assert len(said) == 1
    assert [stats.workers_replaced for stats in run.history] == [expected, 0, 0, 0]
    others = {1} if "actor" not in fault else {2} if expected == 3 else {2, 3}
    assert len(where) in others, "another actor took the place of one that is gone"


def test_a_node_that_dies_in_the_middle_of_a_generation_leaves_no_trace(nodes, env, undisturbed, tmp_path):
    once, more = tmp_path / "once", nodes.add()
    once.mkdir()
    faults = {seed_of(candidate, 1): "kill the node in step" for candidate in range(20)}
    try:
        with pytest.warns(RuntimeWarning, match=r"workers are replaced: the actor of node .* is gone"):
            run, where = ray_run(
                nodes, tmp_path, kwargs={"faults": faults, "once": str(once), "spares": nodes.head, "nap": 0.005}
            )
    finally:
        nodes.remove(more)
    assert any(once.iterdir())
    assert content(run) == undisturbed
    assert len(set(where.values())) == 2


@pytest.mark.long
def test_a_node_that_comes_gets_work_from_the_next_generation_on(nodes, env, undisturbed, tmp_path):
    come = []

    def welcome(stats):
        if stats.generation == 0:
            come.append(nodes.add())
        time.sleep(1.1)  # nodes are looked for once a second

    try:
        run, where = ray_run(nodes, tmp_path, on_generation=welcome, kwargs={"nap": 0.02})
    finally:
        nodes.remove(come[0])
    assert content(run) == undisturbed
    assert len(set(where.values())) == len(where) == 2


@pytest.mark.filterwarnings("ignore:.*a worker is replaced")
@pytest.mark.long
def test_a_candidate_that_kills_its_worker_is_treated_as_locally(nodes, env, tmp_path):
    faults = {seed_of(3): "kill in step", seed_of(11): "raise in reset"}
    how = {"on_candidate_error": "drop", "generations": 1}
    local = {**SETTINGS, **how, "env_kwargs": {"marks": str(tmp_path), "faults": faults}}
    with pytest.warns(RuntimeWarning, match="2 of 20 candidates of generation 0 have failed"):
        runs = [
            ray_run(nodes, tmp_path, workers=2, kwargs={"faults": faults}, **how)[0],
            train("Marked-v0", run_dir=tmp_path / "local", workers=2, **local),
        ]
    for run in runs:
        lost = [(each["candidate"], each["kind"]) for each in run.history[0].failed_candidates]
        assert lost == [(3, "WorkerDied"), (11, "RuntimeError")]
    assert runs[0].history[0].next_hash == runs[1].history[0].next_hash


@pytest.mark.long
def test_a_hanging_environment_is_ended_and_its_candidate_played_again(nodes, env, undisturbed, tmp_path):
    once = tmp_path / "once"
    once.mkdir()
    kwargs = {"faults": {seed_of(5, 1): "hang in its own code in step"}, "once": str(once)}
    with pytest.warns(RuntimeWarning, match=r"a step or reset took more than 1 seconds \(step_timeout\)"):
        run, _ = ray_run(nodes, tmp_path, workers=2, kwargs=kwargs, step_timeout=1.0)
    assert content(run) == undisturbed


@pytest.mark.long
def test_recycled_workers_change_nothing(nodes, env, undisturbed, tmp_path):
    run, where = ray_run(nodes, tmp_path, workers=2, episodes_per_worker=10)
    assert content(run) == undisturbed
    marks = list((tmp_path / "marks-r").iterdir())
    assert len(where) == 1, "the actor stays"
    assert len(marks) > 4, "their worker processes do not"


@pytest.mark.long
def test_a_run_whose_driver_is_killed_can_be_resumed_by_another(nodes, env, undisturbed, tmp_path):
    (tmp_path / "marks").mkdir()
    kwargs = {"marks": str(tmp_path / "marks"), "nap": 0.005}
    code = f"""
import conftest
from es_core import train
with conftest.registered("Marked-v0", "small_envs:Marked", max_episode_steps=30):
    train("Marked-v0", run_dir={str(tmp_path / "r")!r}, pool="ray", ray_address={nodes.address!r}, workers=2,
          env_kwargs={kwargs!r}, **{SETTINGS!r})
"""
    with running([sys.executable, "-c", code], cwd=TESTS) as driver:
        wait_until(lambda: generations(tmp_path / "r") > 1, driver)
        driver.send_signal(signal.SIGKILL)
    there = list((tmp_path / "marks").iterdir())
    run = train("Marked-v0", run_dir=tmp_path / "r", resume=True, pool="ray", ray_address=nodes.address, workers=3,
                progress=False)  # fmt: skip
    assert content(run) == undisturbed
    assert len(list((tmp_path / "marks").iterdir())) > len(there)


@pytest.fixture
def old():
    """What makes a node compute like a processor that is twenty years old: two libraries choose instructions."""
    if "avx2" not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip("the processor leaves nothing to choose")
    return {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512_SKX"}


@pytest.mark.long
def test_a_node_with_other_arithmetic_gets_no_work_and_is_named(nodes, env, old, tmp_path):
    """What is compiled has the same bits on each; the environment has not."""
    with pytest.warns(RuntimeWarning, match=r"node .* gets no work: its episode of the probe differ.*there: .*numpy"):
        run, where = on_old_nodes(nodes, [old], tmp_path)
    env_kwargs = {"marks": str(tmp_path), "multiplies": True}
    assert content(run) == content(train(env, run_dir=tmp_path / "here", workers=2, env_kwargs=env_kwargs, **SETTINGS))
    assert len(set(where.values())) == 2, "its workers were made, to be asked"


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*gets no work")
@pytest.mark.usefixtures("env")
def test_a_node_like_this_machine_is_found_even_if_tried_second(nodes, old, tmp_path):
    """As many nodes that cannot take part as that it is unlikely that the good one is tried first."""
    _, where = on_old_nodes(nodes, [old] * 2, tmp_path, workers=1, generations=1)
    assert nodes.head in where.values()


def on_old_nodes(nodes, variables, tmp_path, **how):
    """A run of an environment whose arithmetic depends on the processor, while nodes with these variables are there."""
    added = [nodes.add(**each) for each in variables]
    try:
        return ray_run(nodes, tmp_path, kwargs={"multiplies": True}, **how)
    finally:
        for node in added:
            nodes.remove(node)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "nothing answers at 127.0.0.1:1"),
        ("127.0.0.1:99999", "nothing answers at 127.0.0.1:99999"),
        ("ray://10.0.0.1:10001", "is not the address of a cluster: give HOST:PORT"),
    ],
)
def test_a_cluster_that_is_away_is_an_error_before_anything_is_trained(address, message, tmp_path, capsys):
    words = ["train", "CartPole-v1", "--pool", "ray", "--run-dir", str(tmp_path / "r")]
    assert main([*words, "--ray-address", address]) in {1, 2}
    assert message in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_a_cluster_that_is_too_small_is_an_error_before_training(nodes, env, tmp_path):
    with pytest.raises(ConnectionError, match=r"has \d CPUs on \d nodes, which is not enough for 99 workers"):
        ray_run(nodes, tmp_path, workers=99)
    assert not (tmp_path / "r").exists()


@pytest.mark.long
def test_a_cluster_of_another_version_is_an_error_before_training(nodes, python, tmp_path):
    code = f"""
import ray
ray.__version__ = "2.0.0"
import sys
from es_core.cli import main
sys.exit(main(["train", "CartPole-v1", "--pool", "ray", "--ray-address", {nodes.address!r}, "--run-dir", "r"]))
"""
    done = python(code, cwd=tmp_path)
    assert done.code == 1
    assert "Version mismatch" in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "r").exists()


def test_without_ray_the_error_says_how_to_install_it(python, tmp_path):
    words = ["train", "CartPole-v1", "--pool", "ray", "--run-dir", str(tmp_path / "r")]
    done = python(f"import sys; sys.modules['ray'] = None; from es_core.cli import main; sys.exit(main({words!r}))")
    assert (done.code, done.err.strip()) == (1, "error: pool='ray' needs Ray: pip install 'es-envs[ray]'")
    assert not (tmp_path / "r").exists()


def test_an_address_is_for_the_ray_pool_only(tmp_path):
    with pytest.raises(ValueError, match=r"ray_address='auto' is for pool='ray'"):
        train("CartPole-v1", run_dir=tmp_path / "r", ray_address="auto")


def test_a_node_without_the_plugin_is_named_with_what_it_lacks(nodes, python, tmp_path):
    """The driver alone has the plugin: it is found where only the driver looks."""
    package, info = tmp_path / "site" / "es_hidden.py", tmp_path / "site" / "es_hidden-1.2.dist-info"
    info.mkdir(parents=True)
    package.write_text(
        "from es_envs import EnvDefinition, hookimpl\n\n\n@hookimpl\ndef register_envs():\n"
        '    return [EnvDefinition(id="Hidden-v0", entry_point="small_envs:Walk", max_episode_steps=5)]\n',
        encoding="utf-8",
    )
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: es-hidden\nVersion: 1.2\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[es_envs]\nhidden = es_hidden\n", encoding="utf-8")
    words = ["train", "Hidden-v0", "--pool", "ray", "--ray-address", nodes.address, "--run-dir", str(tmp_path / "r")]
    done = python(f"import sys; from es_core.cli import main; sys.exit(main({words!r}))", path=[tmp_path / "site"])
    assert done.code == 1, done.err
    assert "no node of the Ray cluster" in done.err
    assert "es-hidden is not installed there (here it is 1.2)" in done.err
    assert not (tmp_path / "r").exists()


@pytest.mark.long
def test_without_an_address_the_cluster_is_local_and_ends_with_the_run(python, tmp_path):
    words = ["train", "CartPole-v1", "--pool", "ray", "--workers", "2", "--generations", "1", "--json", "--quiet"]
    code = f"import sys; from es_core.cli import main; sys.exit(main({[*words, '--run-dir', str(tmp_path / 'r')]!r}))"
    done = python(code)
    assert done.code == 0, done.err
    assert json.loads(done.out)["directory"] == str(tmp_path / "r"), "nothing of Ray's is among the result"
    local = train("CartPole-v1", run_dir=tmp_path / "local", generations=1, workers=1, progress=False)
    assert Run.open(tmp_path / "r").history[-1].parameter_hash == local.history[-1].parameter_hash


@pytest.mark.long
def test_a_search_on_a_cluster_finds_what_it_finds_here_and_connects_once(nodes, tmp_path):
    how = {"trials": 2, "seeds": 1, "progress": False, "generations": 2, "population_size": 8, "hidden_sizes": ()}
    found = [
        tune(
            "CartPole-v1", search={"sigma": (0.1, 0.5)}, directory=tmp_path / pool, pool=pool, workers=2, **where, **how
        )
        for pool, where in (("local", {}), ("ray", {"ray_address": nodes.address}))
    ]
    assert found[0].trials == found[1].trials


@pytest.mark.long
def test_a_run_takes_the_cpus_that_are_free_and_waits_if_there_are_none(nodes, env, undisturbed, tmp_path):
    code = f"""
import time, ray
ray.init({nodes.address!r}, logging_level="ERROR")
class Holder: pass
three = ray.remote(Holder).options(num_cpus=3).remote()
ray.get(three.__ray_ready__.remote())
one = ray.remote(Holder).options(num_cpus=1).remote()
ray.get(one.__ray_ready__.remote())
print("all are held", flush=True)
time.sleep(6)
ray.kill(one)
time.sleep(1000)
"""
    with running([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as others:
        try:
            assert others.stdout.readline() == "all are held\n"
            run, where = ray_run(nodes, tmp_path)
        finally:
            others.kill()
    assert content(run) == undisturbed
    assert len(where) == 1


@pytest.mark.long
def test_ctrl_c_and_sigterm_end_a_run_in_order_and_its_actors_too(nodes, tmp_path):
    words = ["train", "CartPole-v1", "--pool", "ray", "--ray-address", nodes.address, "--run-dir", "r", "--workers=2"]
    endless = ["--generations", "100000", "--solved-at", "none", "--population-size", "8", "--quiet"]
    with running([sys.executable, "-m", "es_core", *words, *endless], cwd=tmp_path) as process:
        wait_until(lambda: generations(tmp_path / "r") > 2, process)
        process.terminate()
        assert process.wait(timeout=60) in {128 + signal.SIGTERM, 128 + signal.SIGINT}  # Ray makes one of the other
    run = Run.open(tmp_path / "r")
    assert run.next_generation == len(run.history)


@pytest.mark.long
def test_seeds_are_trained_side_by_side_on_the_cluster(nodes, tmp_path):
    how = {"generations": 2, "population_size": 8, "hidden_sizes": (), "progress": False}
    result = train_seeds(
        "CartPole-v1", [3, 4], run_dir=tmp_path / "runs", pool="ray", ray_address=nodes.address, workers=2, **how
    )
    (group,) = result.groups
    alone = [train("CartPole-v1", run_dir=tmp_path / str(seed), seed=seed, workers=1, **how) for seed in (3, 4)]
    assert [run.history[-1].parameter_hash for run in group.runs] == [run.history[-1].parameter_hash for run in alone]
