"""What 16 to 10 000 workers of the ray pool would reach: a discrete-event simulation of whole generations.

Usage: python benchmarks/cluster_model.py [--quick] [--rounds N]

One driver hands out calls to nodes, as `es_core/pools/cluster.py` does, and with its scheduler; a node shares them out
among its CPUs, and plays on with what it has while it waits for the next call. The driver does one thing at a time: a
call and its answer, and each candidate in it, cost processor time (COSTS, measured by `python benchmarks/ray_pool.py`),
and what comes meanwhile waits. At the end of a generation it draws the population's noise again and updates the mean,
with all cores of its machine, and puts the mean into the object store, from where nodes pass it on to each other.

Lengths of episodes are those that real populations had: a policy for RaceCar-v0 is trained for a few generations, and
candidates' lengths are drawn from those of all generations. A step takes STEP seconds; a slow node, one in a
hundred, half as long again, and every single episode varies by a tenth. Workers fail at random, in one of ten cases
with their whole node; what they had is played again once that is noticed, and a node comes back after a while.

Efficiency is the time that the episodes would take if they were spread evenly over all workers and nothing else took
any, to the time of the generations. That is stricter than the published 82 % of Salimans et al. (2017), 1440 cores
against 18, whose 18 cores already pay for most of it.
"""

import heapq
import math
from dataclasses import dataclass, replace
from functools import partial
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from report import Report, Spread, options

from es_core import train
from es_core.formatting import percent
from es_core.pools.by_name import make_pool
from es_core.pools.options import PoolOptions
from es_core.pools.scheduler import Scheduler
from es_core.training.state import TrainingState
from es_envs import definition

SCALES = (16, 128, 1440, 10_000)
GENERATIONS = 3


@dataclass(frozen=True)
class Costs:
    """Seconds, unless said otherwise. The first five were measured; the others are assumptions.

    Attributes:
        call: processor time of the driver for a call and its answer.
        round_trip: of a call that does nothing.
        candidate: of the driver, for one candidate's results.
        noise: of the driver, for one number of one candidate's noise, on one core.
        put: of the driver, for one parameter of the mean.
        step: of the environment and policy.
        bandwidth: of the network, bytes a second.
        cores: of a node, the driver's too.
        failures: of a worker, an hour.
        noticed: until what a dead worker had is played again.
        noticed_node: until a dead node's tasks are handed out again.
        restart: until a node's place is taken.
    """

    call: float = 0.00047
    round_trip: float = 0.0009
    candidate: float = 0.0000045
    noise: float = 2.5e-9
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


class Node:
    """CPUs that play what the node was handed, in order; ``finishes``: when each task not answered is done."""

    def __init__(self, cpus: int, speed: float) -> None:
        self.speed, self.cpus = speed, [0.0] * cpus
        self.finishes: dict[int, float] = {}
        self.answer_at = 0

    def play(self, number: int, now: float, seconds: float) -> None:
        """Have the next CPU that is free play a task."""
        done = max(heapq.heappop(self.cpus), now) + seconds * self.speed
        heapq.heappush(self.cpus, done)
        self.finishes[number] = done

    def answers(self) -> float:
        """When no more tasks are left than it was told."""
        return sorted(self.finishes.values())[len(self.finishes) - self.answer_at - 1]


class Simulation:
    """Generations of one case; ``now`` at their end, and ``work``: what the episodes alone take."""

    def __init__(self, case: Case, costs: Costs, lengths: NDArray[np.int64], seed: int) -> None:
        self.case, self.costs, self.lengths = case, costs, lengths
        self.random = np.random.default_rng(seed)
        self.scheduler = Scheduler[int](call_seconds=costs.round_trip)
        self.nodes = []
        for number in range(math.ceil(case.workers / costs.cores)):
            cpus = min(costs.cores, case.workers - number * costs.cores)
            self.nodes.append(Node(cpus, 1.5 if self.random.random() < 0.01 else 1.0))
            self.scheduler.join(number, cpus)
        self.now = self.work = 0.0  # of the driver
        self.events: list[tuple[float, str, int]] = []

    def run(self) -> None:
        """Play the generations."""
        for _ in range(GENERATIONS):
            self._generation()
            drawn = self.case.candidates / 2 * self.case.parameters * self.costs.noise / self.costs.cores
            self.now += drawn

    def _generation(self) -> None:
        case, costs = self.case, self.costs
        self.now += case.parameters * costs.put
        hops = math.ceil(math.log2(len(self.nodes) + 1))
        sent = self.now + hops * 4 * case.parameters / costs.bandwidth
        seconds = costs.step * self.random.choice(self.lengths, case.candidates)
        seconds *= self.random.lognormal(0.0, 0.1, case.candidates)
        self.work += float(seconds.sum())
        self.scheduler.begin(range(case.candidates))
        for number in self.scheduler.workers:
            self._call(number, seconds, sent)
        while not self.scheduler.done:
            arrived, what, number = heapq.heappop(self.events)
            self.now = max(self.now, arrived)
            node = self.nodes[number]
            if what == "gone":
                self.scheduler.die(number, [])
                node.finishes = {}
                heapq.heappush(self.events, (self.now + costs.restart, "back", number))
            elif what == "back":
                self.scheduler.join(number, len(node.cpus))
            else:
                answered = [task for task, done in node.finishes.items() if done <= arrived - costs.round_trip / 2]
                self.now += costs.call / 2 + len(answered) * costs.candidate
                played = sum(float(seconds[task]) for task in answered) * node.speed
                self.scheduler.answer(number, answered, seconds=played, episodes=len(answered))
                for task in answered:
                    del node.finishes[task]
            if what != "gone":
                self._call(number, seconds, sent)

    def _call(self, number: int, seconds: NDArray[np.float64], sent: float) -> None:
        """Give a node what it should have, as ``RayPool`` does."""
        costs, node = self.costs, self.nodes[number]
        portion = self.scheduler.order(number)
        if not self.scheduler.held(number):
            return
        tasks: list[int] = []
        node.answer_at = self.scheduler.answer_at(number)
        if portion is not None:
            tasks, node.answer_at = portion.numbers, portion.answer_at
        self.now += costs.call / 2
        takes = seconds[tasks]
        dies = self.random.random(len(tasks)) < costs.failures * takes / 3600
        begins = max(sent, self.now + costs.round_trip / 2)
        for task, length, is_dying in zip(tasks, takes, dies, strict=True):
            node.play(task, begins, float(length) + (costs.noticed + float(length)) * is_dying)
        if self.random.random() < costs.failures * float(takes.sum()) / 3600 / 10:
            event = (begins + costs.noticed_node, "gone", number)
        else:
            event = (max(begins, node.answers()) + costs.round_trip / 2, "answer", number)
        heapq.heappush(self.events, event)

    @property
    def efficiency(self) -> float:
        """See the module's docstring."""
        return self.work / self.case.workers / self.now


def recorded_lengths(*, quick: bool) -> NDArray[np.int64]:
    """Steps of the candidates of a real run on RaceCar-v0."""
    lengths: list[NDArray[np.int64]] = []
    with TemporaryDirectory() as folder:
        small: dict[str, Any] = {"generations": 1, "population_size": 4, "eval_every": 0}
        how = small if quick else {"generations": 12}
        run = train("RaceCar-v0", run_dir=f"{folder}/run", checkpoint_every=1, progress=False, **how)
        with make_pool(definition("RaceCar-v0"), run.config, PoolOptions()) as pool:
            for generation in run.checkpoint_generations()[:-1]:
                search = TrainingState.at(run.checkpoint_at(generation), run.directory)
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
    default = Costs()
    report.head(
        "workers", "candidates", "parameters", "efficiency", "with failures", "a free driver", "10 times as long",
    )  # fmt: skip
    for workers in SCALES[: 1 if given.quick else None]:
        for case in (
            Case(workers, 5760, 6_000),
            Case(workers, 10 * workers, 6_000),
            Case(workers, 10 * workers, 1_700_000),
        ):
            measured = partial(efficiency, case)
            columns = {
                "all": measured(default),
                "failures": measured(replace(default, failures=1.0)),
                "free driver": measured(replace(default, call=0.0, candidate=0.0, noise=0.0, put=0.0)),
                "long episodes": measured(replace(default, step=10 * default.step)),
            }
            cells = [percent(column.median) for column in columns.values()]
            report.row(f"{workers:,}", f"{case.candidates:,}", f"{case.parameters:,}", *cells)
            results["cases"].append({**vars(case), "efficiency": columns})
    report.save(results)


if __name__ == "__main__":
    main()
