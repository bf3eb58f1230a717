"""Long runs: what a run of thousands of generations and episodes takes, it gives back, but for its history."""

import psutil
import pytest
from conftest import workers_of

from es_core import train

OWN_FORKERS = True

SETTINGS = {
    "population_size": 10,
    "eval_every": 50,
    "eval_episodes": 2,
    "confirm_episodes": 2,
    "policy": "mlp",
    "hidden_sizes": (4,),
    "observation_normalization": True,
    "solved_at": None,
    "checkpoint_every": 200,
    "engine": "compiled",
}
MB = 1_000_000
HISTORY = 1_500  # bytes of a generation that stay in memory: its line, but for its log


class Gauge:
    """Notes what the main process and its workers hold, generation by generation; an ``on_generation``."""

    def __init__(self):
        self.main, self.workers, self.pids = [], [], set()

    def __call__(self, stats):
        if stats.generation % 10 == 0:
            workers = workers_of()
            self.pids |= {worker.pid for worker in workers}
            self.main.append(held(psutil.Process()))
            self.workers.append({name: [held(each)[name] for each in workers] for name in self.main[0]})


def held(process):
    memory = process.memory_full_info()
    return {"memory": memory.uss, "shared": memory.shared, "files": process.num_fds(), "threads": process.num_threads()}


@pytest.mark.parametrize(
    ("pool", "generations", "episodes_per_worker"),
    [
        pytest.param("local", 200, None, marks=pytest.mark.slow),
        pytest.param("local", 200, 500, marks=pytest.mark.slow),
        *(pytest.param("local", 2000, often, marks=pytest.mark.long) for often in (None, 500)),
    ],
)
def test_memory_files_and_threads_stay_what_they_were(
    pool, generations, episodes_per_worker, walk, tmp_path, record_property
):
    gauge = Gauge()
    how = {
        "pool": pool,
        "workers": 2,
        "episodes_per_worker": episodes_per_worker,
        "on_generation": gauge,
        "progress": False,
    }
    train(walk, run_dir=tmp_path / "run", generations=generations, **how, **SETTINGS)
    warm = len(gauge.main) // 10
    before, after = gauge.main[warm], gauge.main[-1]
    record_property("main", f"{before} to {after}")
    record_property("workers", f"{gauge.workers[warm]} to {gauge.workers[-1]}")
    assert after["memory"] - before["memory"] < 2 * MB + HISTORY * generations
    assert after["shared"] - before["shared"] < MB
    assert (after["files"], after["threads"]) == (before["files"], before["threads"])
    before, after = gauge.workers[warm], gauge.workers[-1]
    assert max(after["memory"]) - max(before["memory"]) < 2 * MB
    assert max(after["shared"]) - max(before["shared"]) < MB
    assert (after["files"], after["threads"]) == (before["files"], before["threads"])
    assert (len(gauge.pids) > 2) == (episodes_per_worker is not None)


@pytest.mark.slow
def test_recycling_contains_an_environment_that_takes_ever_more(register, tmp_path):
    env, most = register("Hoarding-v0", "small_envs:Hoarding"), {}
    for episodes_per_worker in (None, 60):
        gauge = Gauge()
        how = {"workers": 1, "episodes_per_worker": episodes_per_worker, "on_generation": gauge, "progress": False}
        run = train(env, run_dir=tmp_path / str(episodes_per_worker), generations=30, **how, **SETTINGS)
        memory = [each["memory"][0] for each in gauge.workers]
        most[episodes_per_worker] = max(memory) - memory[0], run.history[-1].parameter_hash
    (unlimited, bits), (contained, same_bits) = most.values()
    assert unlimited > 50 * MB
    assert contained < 20 * MB
    assert bits == same_bits
