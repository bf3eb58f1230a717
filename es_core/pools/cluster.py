"""The ray pool: the tasks of the local pool, played by actors on the nodes of a Ray cluster."""

import math
import os
import random
import signal
import socket
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

try:
    import ray
except ModuleNotFoundError as error:
    raise ImportError("pool='ray' needs Ray: pip install 'es-envs[ray]'") from error
from ray._private.state import available_resources_per_node  # nothing public says it by node
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from es_core.config import TrainConfig
from es_core.machine import requirements, usable_cores, versions
from es_core.pools.host import Host, Played
from es_core.pools.process import end
from es_core.pools.tasks import TaskPool, require_workers
from es_core.pools.work import Work
from es_core.pools.worker import DEAR_NOISE, FailedReply, ReadyReply, Start, Task
from es_core.pools.workers import greeted, start_worker
from es_core.strategies.population import Population
from es_envs import EnvDefinition

__all__ = ["RayPool", "connection", "require_cpus"]

_OVERHEAD = 0.02  # of a call, at most, as a share of what it plays
_PLENTY = 4  # times as many tasks has a call, while there are enough for all
_AHEAD = 2  # calls of an actor at once: it never waits for the next one
_PINGS = 20
_LOOK_EVERY = 1.0  # seconds between two looks for nodes
_PATIENCE = 120.0  # seconds without any worker, after which a run ends
_SETTLED = 5.0  # seconds without a further worker, after which those that are there begin
_UNMET = 30.0  # seconds, and twice as many each time, after which an actor is looked for another place
_UNLUCKY = 3  # actors of a node that failed to join, after which it gets no work
_REACH = 10.0  # seconds in which a cluster's address must answer

_CLUSTER = "`ray status` says how the cluster is"


@contextmanager
def connection(address: str | None = None, *, cores: int | None = None) -> Iterator[str]:
    """Be connected to a Ray cluster: the one that this process is connected to, or else ``address``.

    Args:
        address: "auto" (a cluster that runs on this machine, or that RAY_ADDRESS names) or "HOST:PORT"; None: what
            RAY_ADDRESS names, or else a cluster of this machine alone that ends with the connection.
        cores: of that one; None: the usable ones.

    Yields:
        where the cluster is, for messages.

    Raises:
        ValueError: it is no address.
        ConnectionError: there is no cluster at the address, or it is of another version.
    """
    if ray.is_initialized():
        yield ray.get_runtime_context().gcs_address
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if "://" in address:
        raise ValueError(f"{address!r} is not the address of a cluster: give HOST:PORT, on one of its machines")
    _require_reachable(address)
    local = {"num_cpus": cores or usable_cores(), "include_dashboard": False} if address == "local" else {}
    with _own_sigterm():
        try:
            ray.init(address, logging_level="ERROR", **local)
        except Exception as error:
            why = f"{error}: {error.__cause__}" if error.__cause__ is not None else str(error)
            raise ConnectionError(f"no Ray cluster can be used at {address}: {why}") from error
    try:
        yield ray.get_runtime_context().gcs_address
    finally:
        ray.shutdown()


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep how this process treats SIGTERM, which Ray would change."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def require_cpus(workers: int | None) -> int:
    """How many CPUs the cluster has that this process is connected to.

    Raises:
        ConnectionError: not one for each of ``workers``; None: not a single one.
    """
    nodes, wanted = _nodes(), workers or 1
    there = sum(map(_cpus, nodes))
    if there < wanted:
        address = ray.get_runtime_context().gcs_address
        raise ConnectionError(
            f"the Ray cluster at {address} has {there} CPUs on {len(nodes)} nodes, which is not enough "
            f"for {wanted} workers: ask for fewer, or leave `workers` out to use what there is; {_CLUSTER}"
        )
    return there


def _require_reachable(address: str) -> None:
    """Refuse an address where nobody answers: Ray itself would try for minutes."""
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise ConnectionError(
            f"nobody answers at {address} ({error}): start a cluster there (`ray start --head`), or name another one"
        ) from error


@dataclass(eq=False)
class _Worker:
    """An actor and what it was given.

    Attributes:
        actor: a ``Host`` at the other end.
        node: id of its node.
        since: when it was asked for.
        facts: what it said of itself: ``Host.meet``.
        calls: that it has not answered: their tasks, by index.
    """

    actor: Any
    node: str
    since: float
    facts: Mapping[str, Any] = field(default_factory=dict)
    calls: dict[Any, dict[int, Task]] = field(default_factory=dict)

    @property
    def held(self) -> dict[int, Task]:
        """All tasks that it has not answered."""
        return {index: task for tasks in self.calls.values() for index, task in tasks.items()}


class RayPool(TaskPool):
    """Actors on the nodes of a Ray cluster, each with a worker process of its own for life.

    The population goes to every node once, through Ray's object store. A call has as many tasks as it takes to make
    the cost of a call small. Nodes may come and go: who comes gets work from the next generation on, and what those
    had that are gone is played again.

    A node takes part if it has the same versions of this package and the plugin, and its probe is this machine's.

    Args:
        definition: of the environment.
        config: of the run, resolved.
        workers: actors at most; None: as many as the cluster has CPUs, at any time.
        most: start no more than this, since there is no work for more.
        ray_address: see ``connection``.
        step_timeout: see ``make_pool``; recycle_after, too.

    Attributes:
        call_seconds: until a call that does nothing is answered.
        task_seconds: that a task has taken lately.

    Raises:
        ValueError: workers is not positive.
        ConnectionError: there is no cluster, it has fewer CPUs than workers are asked for, or none of its nodes can
            take part; the message says why.
        PluginError, RolloutError: the environment cannot be made here.
    """

    def __init__(
        self,
        definition: EnvDefinition,
        config: TrainConfig,
        *,
        workers: int | None = None,
        most: int,
        ray_address: str | None = None,
        step_timeout: float,
        recycle_after: int | None = None,
    ) -> None:
        super().__init__(
            definition, replace(config, device="cpu"), step_timeout=step_timeout, recycle_after=recycle_after
        )
        require_workers(workers)
        self._asked, self._most = workers, most
        self._workers: list[_Worker] = []
        self._joining: dict[Any, _Worker] = {}  # by the call that is to be answered next
        self._calls: dict[Any, _Worker] = {}
        self._barred: dict[str, str] = {}  # ids of nodes that get no work, and why
        self._failed = Counter[str]()  # actors that could not join, by node
        self._number, self._looked, self._unmet = 0, -math.inf, _UNMET
        self.call_seconds = self.task_seconds = 0.0
        self._distributions, self._same = requirements(definition)
        self._own_versions = versions(*self._distributions)
        self._start = Start(definition, self.config, step_timeout, probe=True)
        self._open = ExitStack()
        self._address = self._open.enter_context(connection(ray_address, cores=workers))
        try:
            require_cpus(workers)
            child, reply = greeted(start_worker(self._start), self._start)
            end([child])
            self._ready = self._require_ready(reply)
            self._use(self._ready)
            self._gather()
        except BaseException:
            self.close()
            raise

    def _gather(self) -> None:
        """Wait for the first workers.

        Raises:
            ConnectionError: no node can take part.
        """
        deadline, came = time.monotonic() + _PATIENCE, time.monotonic()
        while True:
            self._recruit(now=not self._joining)  # elsewhere, if somebody was refused
            is_making = any(worker.facts for worker in self._joining.values())  # its environment, however long it takes
            enough = not self._joining or time.monotonic() > came + _SETTLED
            hopeless = all(node["NodeID"] in self._barred for node in _nodes()) or time.monotonic() > deadline
            if not is_making and (hopeless or (self._workers and enough)):
                break
            if not self._joining:  # all CPUs are somebody else's
                time.sleep(_LOOK_EVERY)
            for call in _answered(list(self._joining), _LOOK_EVERY):
                self._welcome(call)
                came = time.monotonic()
        self._require_workers()
        with suppress(RayError):  # it may have been lost a moment ago
            self.call_seconds = median(_round_trip(self._workers[0]) for _ in range(_PINGS))
        nodes = len({worker.node for worker in self._workers})
        self.choice = f"{self.workers} workers on {nodes} nodes of the Ray cluster at {self._address}"

    def _require_workers(self) -> None:
        if self._workers:
            return
        reasons = list(dict.fromkeys(self._barred.values()))
        raise ConnectionError(
            f"{self.definition.label}: no node of the Ray cluster at {self._address} plays: "
            + ("; ".join(reasons) or f"no CPU became free within {_PATIENCE:g} seconds; {_CLUSTER}")
        )

    def _recruit(self, *, now: bool = False) -> None:
        """Start an actor for every free CPU, as far as more are wanted; looks once a second, or ``now``."""
        if not now and time.monotonic() - self._looked < _LOOK_EVERY:
            return
        self._looked = time.monotonic()
        self._give_up_unmet()
        everyone = [*self._workers, *self._joining.values()]
        wanted = min(self._asked or self._most, self._most) - len(everyone)
        if wanted <= 0:
            return
        present, free = Counter(worker.node for worker in everyone), available_resources_per_node()
        places = [
            (place, random.random(), node["NodeID"])  # noqa: S311  (others may be looking, too)
            for node in _nodes()
            if node["NodeID"] not in self._barred
            for place in range(
                present[node["NodeID"]],
                min(_cpus(node), present[node["NodeID"]] + int(free.get(node["NodeID"], {}).get("CPU", 0))),
            )
        ]
        for _, _, node in sorted(places)[:wanted]:  # one on each node, then a second one on each, ...
            strategy = NodeAffinitySchedulingStrategy(node, soft=False)
            actor = ray.remote(Host).options(num_cpus=1, scheduling_strategy=strategy).remote()
            self._joining[actor.meet.remote(self._distributions)] = _Worker(actor, node, time.monotonic())

    def _give_up_unmet(self) -> None:
        """Forget actors that got no place: somebody else was quicker."""
        late = {
            call: worker
            for call, worker in self._joining.items()
            if not worker.facts and time.monotonic() - worker.since > self._unmet
        }
        for call, worker in late.items():
            del self._joining[call]
            _kill(worker)
        self._unmet *= 2 if late else 1  # or it only takes long to begin

    def _welcome(self, call: Any) -> None:
        """Go on with an actor that has answered, until it is a worker, or refused."""
        worker = self._joining.pop(call)
        try:
            answer: Any = ray.get(call)
        except RayError as error:
            self._refuse(worker, _cause(error))
            return
        if worker.node in self._barred:
            _kill(worker)
        elif not worker.facts:
            worker.facts = answer
            if unlike := self._unlike(answer["versions"]):
                self._bar(worker, unlike)
            else:
                self._joining[worker.actor.begin.remote(self._start, self._recycle_after)] = worker
        elif isinstance(answer, FailedReply) and answer.kind == "WorkerDied":
            self._refuse(worker, answer.message)
        elif isinstance(answer, FailedReply):
            self._bar(worker, f"{answer.kind}: {answer.message}")
        elif unlike := self._other_arithmetic(answer, worker.facts):
            self._bar(worker, unlike)
        else:
            self._workers.append(worker)
            self.workers = len(self._workers)

    def _refuse(self, worker: _Worker, why: str) -> None:
        """Do without an actor that could not join; if its node is there and this happens again, without that, too."""
        _kill(worker)
        self._failed[worker.node] += 1
        if self._failed[worker.node] >= _UNLUCKY and _is_alive(worker.node):
            self._bar(worker, why)

    def _bar(self, worker: _Worker, why: str) -> None:
        """Give a node no work, and say so."""
        _kill(worker)
        if worker.node not in self._barred:
            name = _name(worker.node)
            self._barred[worker.node] = f"node {name}: {why}"
            warnings.warn(f"{self.definition.label}: node {name} gets no work: {why}", RuntimeWarning, stacklevel=2)

    def _unlike(self, found: Mapping[str, str]) -> str:
        """What a node has in another version, of what must be the same; empty if nothing."""
        for name in self._same:
            if name not in found:
                return f"{name} is not installed there (here it is {self._own_versions.get(name)})"
            if found[name] != self._own_versions.get(name):
                return f"{name} is {found[name]} there and {self._own_versions.get(name)} here"
        return ""

    def _other_arithmetic(self, ready: ReadyReply, facts: Mapping[str, Any]) -> str:
        """What a node computes otherwise; empty if nothing."""
        if ready == self._ready:
            return ""
        ours, theirs = self._ready.probe, ready.probe
        parts = [name for name in ("candidate", "outputs", "episode") if getattr(ours, name) != getattr(theirs, name)]
        what = f"its {', '.join(parts)} of the probe" if parts else "its environment's spaces or engine"
        there = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
        here = ", ".join(f"{name} {version}" for name, version in self._own_versions.items())
        return f"{what} differ from those here; there: {facts['processor']}, {there}; here: {here}"

    def _play(self, population: Population, work: Work) -> None:
        self._number += 1
        sent = ray.put(population)
        together = 2 if population.base.shape[1] > DEAR_NOISE else 1  # as in the local pool
        self._recruit()
        deadline = math.inf
        while work.left:
            for ahead in range(_AHEAD):  # one call for everyone before anyone has two
                for worker in self._workers:
                    if len(worker.calls) == ahead:
                        self._hand_out(worker, work, sent, together)
            waiting = [*self._calls, *self._joining]
            for call in _answered(waiting, _LOOK_EVERY):
                if call in self._joining:
                    self._welcome(call)
                elif call in self._calls:  # its worker may have been lost a moment ago
                    self._take(population, work, call)
            if self._workers:
                deadline = math.inf
                continue
            self._recruit()
            deadline = min(deadline, time.monotonic() + _PATIENCE)
            if time.monotonic() > deadline:
                self._require_workers()
            time.sleep(0 if waiting else _LOOK_EVERY)

    def _hand_out(self, worker: _Worker, work: Work, sent: Any, together: int) -> None:
        tasks = work.take(worker.held, self._portion(work, together))
        if tasks:
            call = worker.actor.play.remote(self._number, sent, tasks)
            worker.calls[call] = {task.index: task for task in tasks}
            self._calls[call] = worker

    @property
    def enough(self) -> int:
        """Tasks that a call must have for its cost to be small beside what it plays."""
        return math.ceil(self.call_seconds / (_OVERHEAD * self.task_seconds)) if self.task_seconds else 1

    def _portion(self, work: Work, together: int) -> int:
        """Tasks of the next call: enough of them, and near the end no more than others could do."""
        left, workers = len(work.queue), len(self._workers)
        share = max(left // (_AHEAD * workers), min(self.enough // 4, left // workers))
        return math.ceil(max(1, min(_PLENTY * self.enough, share)) / together) * together

    def _take(self, population: Population, work: Work, call: Any) -> None:
        """Take the answer to a call.

        Raises:
            RolloutError: see ``RolloutPool.evaluate``.
        """
        worker = self._calls.pop(call)
        try:
            played: Played = ray.get(call)
        except RayError as error:
            self._lose(population, work, worker, error)
            return
        held = worker.calls.pop(call)
        seconds = played.seconds / max(1, len(played.replies))
        self.task_seconds = (0.8 * self.task_seconds + 0.2 * seconds) if self.task_seconds else seconds
        for reply in played.replies:
            self._keep(population, work, held, reply)
        if played.death is not None:
            self._bury(population, work, held, f"on node {_name(worker.node)} {played.death}", played.report)

    def _lose(self, population: Population, work: Work, worker: _Worker, error: Exception) -> None:
        """Do without a worker whose actor is gone; what it had is played again."""
        for call in worker.calls:
            self._calls.pop(call, None)
        self._workers.remove(worker)
        self.workers = len(self._workers)
        _kill(worker)
        playing, *waiting = worker.calls.values()
        if not _is_alive(worker.node) or "node" in _cause(error).lower():  # which no candidate is suspected of
            playing, waiting = {}, list(worker.calls.values())
        for held in waiting:
            work.queue.extendleft(reversed(held.values()))
        self._bury(population, work, playing, f"that of node {_name(worker.node)} is gone: {_cause(error)}", "")
        self._recruit(now=True)

    def close(self) -> None:
        """End the actors. May be called twice."""
        for worker in [*self._workers, *self._joining.values()]:
            _kill(worker)
        self._workers, self._joining, self._calls = [], {}, {}
        self._open.close()


def _nodes() -> list[dict[str, Any]]:
    """The nodes that are alive."""
    return [node for node in ray.nodes() if node["Alive"]]


def _cpus(node: Mapping[str, Any]) -> int:
    return int(node["Resources"].get("CPU", 0))


def _name(node_id: str) -> str:
    """Of a node, for people."""
    for node in ray.nodes():
        if node["NodeID"] == node_id:
            return f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}, {node_id[:8]})"
    return node_id[:8]


def _is_alive(node_id: str) -> bool:
    return node_id in {node["NodeID"] for node in _nodes()}


def _round_trip(worker: _Worker) -> float:
    """Seconds until a call that does nothing is answered."""
    started = time.perf_counter()
    ray.get(worker.actor.ping.remote())
    return time.perf_counter() - started


def _answered(calls: list[Any], seconds: float) -> list[Any]:
    """Those calls that have an answer; waits for one, but no longer than this."""
    if not calls:
        return []
    ready, others = ray.wait(calls, timeout=seconds)
    return [*ready, *(ray.wait(others, num_returns=len(others), timeout=0)[0] if ready and others else ())]


def _cause(error: Exception) -> str:
    """The last line of what Ray says: it names the exception."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _kill(worker: _Worker) -> None:
    with suppress(Exception):  # it is gone already, or Ray is
        ray.kill(worker.actor)
