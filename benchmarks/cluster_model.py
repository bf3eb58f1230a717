"""What 16 to 10 000 workers of the ray pool would reach: a discrete-event simulation of whole generations.

Usage: python benchmarks/cluster_model.py [--quick] [--rounds N]

One driver hands out calls of several candidates to workers that have two each, as `es_core/pools/cluster.py` does,
with the same rule for their size. It does one thing at a time: sending a call and taking an answer cost processor time
(COSTS, measured by `python benchmarks/ray_pool.py`), and what comes meanwhile waits. At the end of a generation it
draws the population's noise again and updates the mean, with all cores of its machine, and puts the mean into the
object store, from where nodes pass it on to each other.

Lengths of episodes are those that real populations had: a policy for RaceCar-v0 is trained for a few generations, and
candidates' lengths are drawn from those of all generations. A step takes STEP seconds; a slow node, one in a
hundred, half as long again, and every single episode varies by a tenth. Workers fail at random, a node with all its
workers in one of ten cases; what they had is handed out again once that is noticed, and they come back after a while.

Efficiency is the time that the episodes would take if they were spread evenly over all workers and nothing else took
any, to the time of the generations. That is stricter than the published 82 % of Salimans et al. (2017), 1440 cores
against 18, whose 18 cores already pay for most of it.
"""

import heapq
import math
from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from report import Report, Spread, options

from es_core import train
from es_core.pools import make_pool
from es_core.search import Search
from es_envs import definition

SCALES = (16, 128, 1440, 10_000)
GENERATIONS = 3


@dataclass(frozen=True)
class Costs:
    """Seconds, unless said otherwise. The first five were measured; the others are assumptions.

    Attributes:
        call: processor time of the driver for a call and its answer.
        round_trip: of a call that does nothing.
        candidate: of the driver, for one candidate's results (of ``python benchmarks/scaling.py``: m2, without noise).
        noise: of the driver, for one number of one candidate's noise, on one core.
        put: of the driver, for one parameter of the mean.
        step: of the environment and policy.
        bandwidth: of the network, bytes a second.
        cores: of a node, the driver's too.
        failures: of a worker, an hour.
        noticed: until a dead worker's tasks are handed out again.
        noticed_node: until a dead node's are.
        restart: until a worker's place is taken.
    """

    call: float = 0.00047
    round_trip: float = 0.0009
    candidate: float = 0.00006
    noise: float = 5e-9
    put: float = 6e-9
    step: float = 0.0003
    bandwidth: float = 1e9
    cores: int = 16
    failures: float = 0.01
    noticed: float = 0.1
    noticed_node: float = 20.0
    restart: float = 10.0


@dataclass(frozen=True)
class Case:
    """A cluster and a population."""

    workers: int
    candidates: int
    parameters: int


OVERHEAD = 0.02  # as in es_core/pools/cluster.py
AHEAD, PLENTY = 2, 4


class Simulation:
    """Generations of one case; ``seconds`` of them, and what the episodes alone take."""

    def __init__(self, case: Case, costs: Costs, lengths: NDArray[np.int64], seed: int) -> None:
        self.case, self.costs, self.lengths = case, costs, lengths
        self.random = np.random.default_rng(seed)
        nodes = math.ceil(case.workers / costs.cores)
        slow = np.where(self.random.random(nodes) < 0.01, 1.5, 1.0)
        self.speed = np.repeat(slow, costs.cores)[: case.workers]
        self.now = 0.0  # of the driver
        self.work = 0.0
        self.down = np.zeros(case.workers)  # until when each worker is away
        self.task_seconds = 0.0

    def run(self) -> None:
        """Play the generations."""
        for _ in range(GENERATIONS):
            self._generation()
            drawn = self.case.candidates / 2 * self.case.parameters * self.costs.noise / self.costs.cores
            self.now += drawn + self.case.candidates * self.costs.candidate

    def _generation(self) -> None:
        case, costs = self.case, self.costs
        self.now += case.parameters * costs.put
        hops = math.ceil(math.log2(math.ceil(case.workers / costs.cores) + 1))
        sent = self.now + hops * 4 * case.parameters / costs.bandwidth
        seconds = costs.step * self.random.choice(self.lengths, case.candidates)
        seconds *= self.random.lognormal(0.0, 0.1, case.candidates)
        self.work += float(seconds.sum())
        queue, left = deque(range(case.candidates)), case.candidates
        free = np.maximum(self.down, sent)  # when each worker has played what it has
        calls: dict[int, tuple[int, list[int]]] = {}
        events: list[tuple[float, int]] = []

        def hand_out(worker: int) -> None:
            if queue and self.down[worker] > self.now:
                heapq.heappush(events, (self.down[worker], ~worker))  # it asks for work when it is back
            elif queue:
                enough = math.ceil(costs.round_trip / (OVERHEAD * self.task_seconds)) if self.task_seconds else 1
                share = max(len(queue) // (AHEAD * case.workers), min(enough // 4, len(queue) // case.workers))
                tasks = [queue.popleft() for _ in range(min(len(queue), max(1, min(PLENTY * enough, share))))]
                self.now += costs.call / 2
                begins = max(free[worker], self.now + costs.round_trip / 2)
                takes = float(seconds[tasks].sum()) * self.speed[worker]
                ends = begins + takes
                if self.random.random() < costs.failures * takes / 3600:
                    dead = slice(worker, worker + 1)
                    notice = costs.noticed
                    if self.random.random() < 0.1:
                        first = worker - worker % costs.cores
                        dead, notice = slice(first, first + costs.cores), costs.noticed_node
                    self.down[dead] = np.maximum(self.down[dead], begins + costs.restart)
                    ends = begins + notice + takes  # by somebody else, later
                free[worker] = ends
                calls[len(calls)] = worker, tasks
                heapq.heappush(events, (ends + costs.round_trip / 2, len(calls) - 1))

        for _ in range(AHEAD):
            for worker in range(case.workers):
                hand_out(worker)
        while left:
            arrived, call = heapq.heappop(events)
            if call < 0:
                self.now = max(self.now, arrived)
                hand_out(~call)
                continue
            self.now = max(self.now, arrived) + costs.call / 2
            worker, tasks = calls[call]
            left -= len(tasks)
            measured = float(seconds[tasks].mean()) * self.speed[worker]
            self.task_seconds = 0.8 * self.task_seconds + 0.2 * measured if self.task_seconds else measured
            hand_out(worker)

    @property
    def efficiency(self) -> float:
        """See the module's docstring."""
        return self.work / self.case.workers / self.now


def recorded_lengths(*, quick: bool) -> NDArray[np.int64]:
    """Steps of the candidates of a real run on RaceCar-v0."""
    lengths: list[NDArray[np.int64]] = []
    with TemporaryDirectory() as folder:
        run = train(
            "RaceCar-v0", run_dir=f"{folder}/run", generations=2 if quick else 12, checkpoint_every=1, progress=False
        )
        with make_pool("local", definition("RaceCar-v0"), run.config, workers=None) as pool:
            for generation in run.checkpoint_generations()[:-1]:
                search = Search.at(run.checkpoint_at(generation), run.directory)
                population = search.population()
                lengths.append(pool.evaluate(population, np.array([generation])).lengths.ravel())
    return np.concatenate(lengths)


def main() -> None:
    """Simulate all cases, each with several seeds."""
    given = options(__doc__, rounds=3)
    report = Report("cluster_model", given.out)
    lengths = recorded_lengths(quick=given.quick)
    low, middle, high = np.quantile(lengths, [0.1, 0.5, 0.9])
    report.say(
        f"{len(lengths)} episodes of RaceCar-v0: {low:.0f}, {middle:.0f} and {high:.0f} steps at the quantiles 0.1, "
        f"0.5 and 0.9, mean {lengths.mean():.0f}; "
        f"{', '.join(f'{name} {value:g}' for name, value in vars(Costs()).items())}"
    )

    def efficiency(case: Case, costs: Costs) -> Spread:
        values = []
        for seed in range(given.rounds):
            simulation = Simulation(case, costs, lengths, seed)
            simulation.run()
            values.append(simulation.efficiency)
        return Spread(tuple(values))

    results: dict[str, Any] = {"lengths": {"count": len(lengths), "mean": mean(map(float, lengths))}, "cases": []}
    usual = Costs()
    report.head(
        "workers", "candidates", "parameters", "efficiency", "with failures",
        "a call for a node", "a free driver", "10 times as long",
    )  # fmt: skip
    for workers in SCALES[: 2 if given.quick else None]:
        for case in (
            Case(workers, 5760, 6_000),
            Case(workers, 10 * workers, 6_000),
            Case(workers, 10 * workers, 1_700_000),
        ):
            measured = partial(efficiency, case)
            columns = {
                "all": measured(usual),
                "failures": measured(replace(usual, failures=1.0)),
                "calls by node": measured(replace(usual, call=usual.call / usual.cores)),
                "free driver": measured(replace(usual, call=0.0, candidate=0.0, noise=0.0, put=0.0)),
                "long episodes": measured(replace(usual, step=10 * usual.step)),
            }
            cells = [f"{100 * column.median:.0f} %" for column in columns.values()]
            report.row(f"{workers:,}", f"{case.candidates:,}", f"{case.parameters:,}", *cells)
            results["cases"].append({**vars(case), "efficiency": columns})
    report.save(results)


if __name__ == "__main__":
    main()
