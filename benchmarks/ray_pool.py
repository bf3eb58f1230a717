"""The ray pool beside the local pool on one machine, and what a call to an actor costs.

Usage: python benchmarks/ray_pool.py [--quick]

Throughput is that of whole generations of 64 candidates with an MLP 64-64 tanh, a node of 2 CPUs, episodes of one
length. The cost of a call is measured with actors that do nothing: processor time of the driver, which is what all
nodes share, and the time until a single call is answered. The cost of a candidate's results is the driver's for a
generation of 14 400, whose answers are made ready. Sizes are those of the messages as Ray sends them.
"""

import time
from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import ray
from loops import CART_POLE, HIDDEN, PLAIN, RACE_CAR, training_rate
from report import Report, alternate, options

import es_envs
from es_core import TrainConfig
from es_core.policies.by_name import make_policy
from es_core.pools.by_name import make_pool
from es_core.pools.cluster import connection
from es_core.pools.host import Host, HostResult
from es_core.pools.messages import Reply, Scores, Work
from es_core.pools.options import PoolOptions
from es_core.pools.pool import RolloutPool
from es_core.pools.scheduler import Scheduler
from es_core.strategies.by_name import make_strategy
from es_core.strategies.defaults import plan_for
from es_core.strategies.population import Population

WORKERS = 2
LEAST = 0.9  # of the local pool's throughput, on the racing car
CALLS = 2000


def main() -> None:
    """Measure all in turn, round after round."""
    given = options(__doc__)
    report = Report("ray_pool", given.out, packages=("ray",))
    results: dict[str, Any] = {}
    with connection(cores=WORKERS):
        report.head("", "local pool [steps/s]", "ray pool [steps/s]", "ray / local", "target")
        for env_id, target in ((RACE_CAR, f"at least {LEAST}"), (CART_POLE, "")):
            rate = partial(
                training_rate, env_id, seconds=given.seconds, population_size=given.population, workers=WORKERS
            )
            pools = {name: partial(rate, pool=name) for name in ("local", "ray")}
            rates = alternate(pools, given.rounds)
            share = rates["ray"] / rates["local"]
            report.row(
                env_id.partition(":")[2], f"{rates['local']:,.0f}", f"{rates['ray']:,.0f}", f"{share:.2f}", target
            )
            results[env_id] = {"rates": rates, "ray_to_local": share}
        report.head("", "a candidate takes [ms]", "candidates of a call", "cost of a call / what it plays", "target")
        for env_id, steps in ((RACE_CAR, None), (CART_POLE, None), (CART_POLE, 20)):
            took = played(env_id, steps)
            label = env_id.partition(":")[2] + (f", episodes of {steps} steps" if steps else "")
            cost = took["call_seconds"] / (took["enough"] * took["task_seconds"])
            report.row(label, f"{1e3 * took['task_seconds']:.2f}", took["enough"], f"{cost:.3f}", "at most 0.02")
            results[f"calls of {label}"] = took
        results["costs"] = costs = measured_costs(10 if given.quick else CALLS)
    report.head("a call to an actor", "")
    report.row("processor time of the driver [µs]", f"{1e6 * costs['driver_seconds']:.0f}")
    report.row("until a single one is answered [µs]", f"{1e6 * costs['round_trip_seconds']:.0f}")
    report.row("processor time of the driver for a candidate's results [µs]", f"{1e6 * costs['candidate_seconds']:.1f}")
    report.row("message for 1 candidate [bytes]", costs["call_bytes"])
    report.row("for each further one [bytes]", costs["task_bytes"])
    report.row("answer for 1 candidate [bytes]", costs["answer_bytes"])
    report.row("for each further one [bytes]", costs["reply_bytes"])
    report.row("storing a mean of 1.7 million parameters [ms]", f"{1e3 * costs['put_seconds']:.1f}")
    report.save(results)


def played(env_id: str, steps: int | None) -> dict[str, float]:
    """What the pool has measured after a few generations, and how many candidates it gives a call."""
    config = TrainConfig.for_env(env_id, hidden_sizes=HIDDEN, max_episode_steps=steps, eval_every=0, **PLAIN)
    with make_pool(es_envs.definition(env_id), config, PoolOptions(pool="ray", workers=WORKERS)) as pool:
        mean = make_policy(config, pool.observation_space, pool.action_space).initial(0)
        for _ in range(3):
            pool.evaluate(make_strategy(pool.config, mean).ask(), np.array([0]))
        return {name: getattr(pool.scheduler, name) for name in ("call_seconds", "task_seconds", "enough")}


def nobody(parameters: int, candidates: int) -> Population:
    """A population that is like any other in its size."""
    return Population(
        generation=0,
        base=np.zeros((1, parameters), np.float32),
        parent=np.zeros(candidates, np.int64),
        scale=0.1,
        noise_seed=np.zeros(candidates, np.int64),
        sign=np.ones(candidates, np.int8),
    )


def reply(numbers: list[int]) -> Reply:
    """What a node may answer."""
    scores = Scores(numbers, ("distance",), np.ones((len(numbers), 1, 3)))
    return Reply(numbers=numbers, episodes=len(numbers), seconds=0.1, scores=scores)


class Instant(RolloutPool):
    """A cluster of 90 nodes whose answers are there as soon as it is asked."""

    def __init__(self) -> None:
        self.definition = es_envs.definition(CART_POLE)
        self.plan = self.config = plan_for(TrainConfig.for_env(CART_POLE, hidden_sizes=HIDDEN, **PLAIN), 1)
        self.scheduler, self.used = Scheduler[int](call_seconds=0.001), 0.0
        for node in range(90):
            self.scheduler.join(node, 16)

    def play(self, work: Work) -> Iterator[Reply]:
        """Does for each call what the driver does, but for what is Ray's."""
        self.scheduler.begin(range(len(work)))
        while not self.scheduler.done:
            for node in self.scheduler.workers:
                if (portion := self.scheduler.order(node)) is not None:
                    paused = time.process_time()
                    message = ray.cloudpickle.dumps(HostResult(reply(portion.numbers), [], 0))
                    self.used -= time.process_time() - paused  # which is the node's
                    answer = ray.cloudpickle.loads(message).reply
                    self.scheduler.answer(node, answer.numbers, seconds=1.5 * len(answer.numbers), episodes=1)
                    yield answer

    def close(self) -> None:
        """Nothing is open."""


def candidate_seconds() -> float:
    """Processor time of the driver for the results of a candidate."""
    cluster, population, began = Instant(), nobody(6000, 14_400), time.process_time()
    cluster.evaluate(population, np.array([0]))
    return (time.process_time() - began + cluster.used) / len(population)


def measured_costs(calls: int) -> dict[str, float]:
    """What calls to actors and messages cost."""
    actors = [ray.remote(Host).options(num_cpus=1).remote() for _ in range(WORKERS)]
    ray.get([actor.ping.remote() for actor in actors])
    round_trips = []
    for _ in range(calls // 10):
        started = time.perf_counter()
        ray.get(actors[0].ping.remote())
        round_trips.append(time.perf_counter() - started)
    used, pending = time.process_time(), [actor.ping.remote() for actor in actors for _ in range(2)]
    for k in range(calls):  # as the pool does: wait for any, take its answer, give its actor the next one
        (ready,), pending = ray.wait(pending)
        ray.get(ready)
        pending.append(actors[k % WORKERS].ping.remote())
    used = time.process_time() - used
    ray.get(pending)
    for actor in actors:
        ray.kill(actor)
    population = nobody(1_700_000, 64)
    puts = []
    for _ in range(5):
        started = time.perf_counter()
        ray.put(Work(population=population, seeds=np.zeros((64, 1), np.int64)))
        puts.append(time.perf_counter() - started)

    def tasks(count: int) -> list[int]:
        return list(range(count))

    def answer(count: int) -> HostResult:
        return HostResult(reply(tasks(count)), [], 0)

    def size(value: object) -> int:
        return len(ray.cloudpickle.dumps(value))

    return {
        "driver_seconds": used / calls,
        "round_trip_seconds": median(round_trips),
        "candidate_seconds": median(candidate_seconds() for _ in range(5)),
        "call_bytes": size(tasks(1)),
        "task_bytes": (size(tasks(101)) - size(tasks(1))) // 100,
        "answer_bytes": size(answer(1)),
        "reply_bytes": (size(answer(101)) - size(answer(1))) // 100,
        "put_seconds": median(puts),
    }


if __name__ == "__main__":
    main()
