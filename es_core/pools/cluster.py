"""The ray pool: it distributes tasks to the nodes of a Ray cluster, each of which plays them in a local pool."""

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
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from es_core.config.budgets import evaluation_episodes, largest_population
from es_core.config.train_config import TrainConfig
from es_core.formatting import counted
from es_core.machine import usable_cores
from es_core.pools.host import Host, HostResult
from es_core.pools.local import LocalPool
from es_core.pools.messages import WORKER_DIED, CannotStart, Failed, Ready, Reply, Start, Work
from es_core.pools.options import PoolOptions
from es_core.pools.pool import RolloutPool
from es_core.pools.scheduler import Portion, Scheduler
from es_core.runs.provenance import requirements, versions
from es_envs import EnvDefinition, interruption

__all__ = ["RayPool", "connection", "require_cpus"]

_PINGS = 20
_LOOK_EVERY = 1.0  # seconds between two looks for nodes
_PATIENCE = 120.0  # seconds without any worker after which a run ends
_JOINED_WITHIN = 5.0  # seconds without a further worker after which those that have joined begin
_UNMET = 8.0  # seconds, and as many more each time, after which an actor that got no CPUs asks for a quarter
_UNLUCKY = 3  # actors of a node that failed to join after which it gets no work
_REACH = 10.0  # seconds in which a cluster's address must answer

_CLUSTER = "`ray status` shows the cluster's state"


@contextmanager
def connection(address: str | None = None, *, cores: int | None = None) -> Iterator[str]:
    """Connect to a Ray cluster: the one that this process is connected to already, or else ``address``.

    Args:
        address: "auto" (a cluster that runs on this machine, or that RAY_ADDRESS names) or "HOST:PORT"; None: the
            cluster that RAY_ADDRESS names, or else one on this machine alone that ends with the connection.
        cores: number of cores of the latter; None: the usable ones.

    Yields:
        the cluster's address, for messages.

    Raises:
        ValueError: ``address`` is not an address.
        ConnectionError: there is no cluster at the address, or it has another version.
    """
    if ray.is_initialized():
        yield ray.get_runtime_context().gcs_address
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if "://" in address:
        raise ValueError(f"{address!r} is not the address of a cluster: give HOST:PORT of one of its machines")
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
    """Restore this process's handler of SIGTERM, which Ray changes."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def require_cpus(workers: int | None) -> int:
    """Number of CPUs of the cluster that this process is connected to.

    Raises:
        ConnectionError: there are fewer than ``workers``, or none at all.
    """
    nodes, wanted = _nodes(), workers or 1
    there = sum(map(_cpus, nodes))
    if there < wanted:
        address = ray.get_runtime_context().gcs_address
        raise ConnectionError(
            f"the Ray cluster at {address} has {there} CPUs on {len(nodes)} nodes, which is not enough "
            f"for {wanted} workers: ask for fewer, or leave out `workers` to use all of them; {_CLUSTER}"
        )
    return there


def _require_reachable(address: str) -> None:
    """Refuse an address where nothing answers: Ray itself would try for minutes."""
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise ConnectionError(
            f"nothing answers at {address} ({error}): start a cluster there (`ray start --head`), or name another one"
        ) from error


@dataclass(eq=False)
class _Worker:
    """An actor and its state.

    Attributes:
        actor: handle of a ``Host``.
        node: id of its node.
        cpus: number of the node's CPUs that it asked for.
        since: time of that request.
        facts: its answer to ``Host.meet``.
        call: the call that it has not answered; None: it waits for one.
    """

    actor: Any
    node: str
    cpus: int
    since: float
    facts: Mapping[str, Any] = field(default_factory=dict)
    call: Any = None


class RayPool(RolloutPool):
    """An actor on each node of a Ray cluster, with a local pool of the node's CPUs.

    The work of a generation goes to every node once, through Ray's object store; a call names tasks by number, as many
    as the ``Scheduler`` says for all the CPUs of the node. Nodes may come and go: a new one gets work from the next
    generation on, and the tasks of a lost one are played again.

    A node takes part if it has the same versions of this package and the plugin, and the same probe as this machine.

    Args:
        definition: the environment's definition.
        config: the run's config, resolved.
        options: of the pool; ``workers`` is the maximum number of CPUs, None: all that the cluster has, at any time.

    Attributes:
        scheduler: says which node gets what, and knows how long calls and tasks take.

    Raises:
        ConnectionError: there is no cluster, it has fewer CPUs than ``workers``, or none of its nodes can take part;
            the message says why.
        PluginError, RolloutError: the environment cannot be made here.
    """

    def __init__(self, definition: EnvDefinition, config: TrainConfig, options: PoolOptions) -> None:
        self.definition, config = definition, replace(config, device="cpu")
        self.scheduler = Scheduler[_Worker](call_seconds=0.0)
        self._asked = options.workers
        self._workers: list[_Worker] = []
        self._joining: dict[Any, _Worker] = {}  # by the call that they must answer next
        self._excluded: dict[str, str] = {}  # ids of nodes that get no work, and why
        self._failed = Counter[str]()  # actors that could not join, by node
        self._unmet = Counter[str]()  # actors that got no CPUs, by node
        self._number, self._looked = 0, -math.inf
        self._has_lost = False  # True if an actor was lost in this generation
        self._distributions, self._same = requirements(definition)
        self._own_versions = versions(*self._distributions)
        self._start = Start(definition, config, options, probe=True)
        self._open = ExitStack()
        self._address = self._open.enter_context(connection(options.ray_address, cores=options.workers))
        try:
            require_cpus(options.workers)
            one = replace(options, pool="local", ray_address=None, workers=1)
            with LocalPool(definition, config, one, most=1, probe=True) as here:
                self._ready, self.plan, self.config = here.greeting, here.plan, here.config
            self.observation_space, self.action_space = here.observation_space, here.action_space
            candidates = largest_population(self.config)
            self._most = candidates + (evaluation_episodes(self.config, candidates) if self.config.eval_every else 0)
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
            self._start_actors(now=not self._joining)  # elsewhere, if an actor was refused
            enough = not self._joining or time.monotonic() > came + _JOINED_WITHIN
            hopeless = all(node["NodeID"] in self._excluded for node in _nodes()) or time.monotonic() > deadline
            if not self._is_making and (hopeless or (self._workers and enough)):
                break
            if not self._joining:  # all CPUs are in use elsewhere
                time.sleep(_LOOK_EVERY)
            for call in _answered(list(self._joining), _LOOK_EVERY):
                self._admit(call)
                came = time.monotonic()
        self._require_workers()
        with suppress(RayError):  # it may have been lost a moment ago
            self.scheduler.call_seconds = median(_round_trip(self._workers[0]) for _ in range(_PINGS))
        nodes = counted(len({worker.node for worker in self._workers}), "node")
        self.choice = f"{counted(self.workers, 'worker')} on {nodes} of the Ray cluster at {self._address}"

    @property
    def _is_making(self) -> bool:
        """True while a worker makes its environment, however long that takes."""
        return any(worker.facts for worker in self._joining.values())

    @property
    def workers(self) -> int:  # type: ignore[override]
        """Number of CPUs that play, on all nodes."""
        return sum(worker.cpus for worker in self._workers)

    def _require_workers(self) -> None:
        if self._workers:
            return
        reasons = list(dict.fromkeys(self._excluded.values()))
        raise ConnectionError(
            f"{self.definition.label}: no node of the Ray cluster at {self._address} plays: "
            + ("; ".join(reasons) or f"no CPU became free within {_PATIENCE:g} seconds; {_CLUSTER}")
        )

    def _start_actors(self, *, now: bool = False) -> None:
        """Ask for CPUs of nodes if more are needed; at most once a second unless ``now``.

        No public interface says how many CPUs of a node are free, only how many of all nodes. So an actor asks for all
        that are needed of its node; if it gets none, since others hold some, the next one asks for a quarter.
        """
        if not now and time.monotonic() - self._looked < _LOOK_EVERY:
            return
        self._looked = time.monotonic()
        self._give_up_unmet()
        everyone = [*self._workers, *self._joining.values()]
        held = Counter[str]()
        for worker in everyone:
            held[worker.node] += worker.cpus
        asking = {worker.node for worker in self._joining.values()}
        wanted = min(self._asked or self._most, self._most) - held.total()
        if wanted <= 0 or ray.available_resources().get("CPU", 0) < 1:
            return
        places = [
            (place, random.random(), node["NodeID"])  # noqa: S311  (others may be looking, too)
            for node in _nodes()
            if node["NodeID"] not in self._excluded and node["NodeID"] not in asking
            for place in range(held[node["NodeID"]], _cpus(node))
        ]
        # One CPU of each node, then a second one of each, ...
        chosen = Counter(node for _, _, node in sorted(places)[:wanted])
        for node, count in chosen.items():
            cpus = max(1, count >> 2 * self._unmet[node])
            strategy = NodeAffinitySchedulingStrategy(node, soft=False)
            actor = ray.remote(Host).options(num_cpus=cpus, scheduling_strategy=strategy).remote()
            self._joining[actor.meet.remote(self._distributions)] = _Worker(actor, node, cpus, time.monotonic())

    def _give_up_unmet(self) -> None:
        """Forget actors that got no CPUs: others hold them."""
        for call, worker in list(self._joining.items()):
            if not worker.facts and time.monotonic() - worker.since > _UNMET * (1 + self._unmet[worker.node]):
                del self._joining[call]
                _kill(worker)
                self._unmet[worker.node] += 1  # or it only starts slowly

    def _admit(self, call: Any) -> None:
        """Go on with an actor that has answered, until it is a worker, or refused."""
        worker = self._joining.pop(call)
        try:
            answer: Any = ray.get(call)
        except RayError as error:
            self._refuse(worker, _cause(error))
            return
        if worker.node in self._excluded:
            _kill(worker)
        elif not worker.facts:
            worker.facts = answer
            if unlike := self._version_mismatch(answer["versions"]):
                self._exclude_node(worker, unlike)
            else:
                self._joining[worker.actor.begin.remote(self._start, worker.cpus)] = worker
        elif isinstance(answer, CannotStart) and answer.kind == WORKER_DIED:
            self._refuse(worker, answer.message)
        elif isinstance(answer, CannotStart):
            self._exclude_node(worker, f"{answer.kind}: {answer.message}")
        elif unlike := self._other_arithmetic(answer, worker.facts):
            self._exclude_node(worker, unlike)
        else:
            self._workers.append(worker)
            self.scheduler.join(worker, worker.cpus)

    def _refuse(self, worker: _Worker, why: str) -> None:
        """Drop an actor that could not join, and its node if that is alive and this has happened too often."""
        _kill(worker)
        self._failed[worker.node] += 1
        if self._failed[worker.node] >= _UNLUCKY and _is_alive(worker.node):
            self._exclude_node(worker, why)

    def _exclude_node(self, worker: _Worker, why: str) -> None:
        """Give a node no work, and warn of it."""
        _kill(worker)
        if worker.node not in self._excluded:
            name = _name(worker.node)
            self._excluded[worker.node] = f"node {name}: {why}"
            warnings.warn(f"{self.definition.label}: node {name} gets no work: {why}", RuntimeWarning, stacklevel=2)

    def _version_mismatch(self, found: Mapping[str, str]) -> str:
        """Describe a version on a node that differs from the one here but must not; empty if there is none."""
        for name in self._same:
            if name not in found:
                return f"{name} is not installed there (here it is {self._own_versions.get(name)})"
            if found[name] != self._own_versions.get(name):
                return f"{name} is {found[name]} there and {self._own_versions.get(name)} here"
        return ""

    def _other_arithmetic(self, ready: Ready, facts: Mapping[str, Any]) -> str:
        """Describe what a node computes differently; empty if nothing."""
        if ready == self._ready:
            return ""
        ours, theirs = self._ready.probe, ready.probe
        parts = [name for name in ("candidate", "outputs", "episode") if getattr(ours, name) != getattr(theirs, name)]
        what = f"its {', '.join(parts)} of the probe" if parts else "its environment's spaces or engine"
        there = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
        here = ", ".join(f"{name} {version}" for name, version in self._own_versions.items())
        return f"{what} differ from those here; there: {facts['processor']}, {there}; here: {here}"

    def play(self, work: Work) -> Iterator[Reply]:
        """Play the tasks of ``work``, and yield replies as they arrive.

        Raises:
            ConnectionError: no node plays any more.
        """
        self._number += 1
        self._has_lost = False
        sent = ray.put(work)
        self._start_actors()
        self.scheduler.begin(range(len(work)))
        deadline = math.inf
        while not self.scheduler.done:
            for worker in self._workers:
                if worker.call is None:
                    self._call(worker, sent)
            calls = {worker.call: worker for worker in self._workers if worker.call is not None}
            for call in _answered([*calls, *self._joining], _LOOK_EVERY):
                if call in self._joining:
                    self._admit(call)
                else:
                    yield self._take(work, calls[call])
            if self._workers or self._is_making:
                deadline = math.inf
            if self._workers:
                continue
            self._start_actors()
            deadline = min(deadline, time.monotonic() + _PATIENCE)
            if time.monotonic() > deadline:
                self._require_workers()
            time.sleep(0 if calls or self._joining else _LOOK_EVERY)

    def _call(self, worker: _Worker, sent: Any) -> None:
        """Send a node its tasks, and ask for its results."""
        portion = self.scheduler.order(worker) or Portion([], self.scheduler.answer_at(worker))
        if self.scheduler.held(worker):
            worker.call = worker.actor.play.remote(self._number, sent, portion.numbers, portion.answer_at)

    def _take(self, work: Work, worker: _Worker) -> Reply:
        """Take the answer to a call."""
        try:
            played: HostResult = ray.get(worker.call)
        except RayError as error:
            return self._lose(work, worker, error)
        worker.call, reply = None, played.reply
        for words in played.warnings:
            warnings.warn(f"{words} (on node {_name(worker.node)})", RuntimeWarning, stacklevel=2)
        self.workers_replaced += played.replaced
        self.scheduler.answer(worker, reply.numbers, seconds=reply.seconds, episodes=reply.episodes)
        self.retried += reply.retried
        return reply

    def _lose(self, work: Work, worker: _Worker, error: Exception) -> Reply:
        """Drop an actor that is gone; its tasks are played again, or given up."""
        self._workers.remove(worker)
        _kill(worker)
        who = "a worker is" if worker.cpus == 1 else f"{worker.cpus} workers are"
        why = f"the actor of node {_name(worker.node)} is gone: {_cause(error)}"
        warnings.warn(f"{self.definition.label}: {who} replaced: {why}", RuntimeWarning, stacklevel=2)
        self.workers_replaced += worker.cpus
        # No candidate is suspected of what happens to a node, nor of the first actor that is gone: it had many.
        is_nodes = not _is_alive(worker.node) or "node" in _cause(error).lower()
        suspects = self.scheduler.held(worker) if self._has_lost and not is_nodes else []
        self._has_lost = self._has_lost or not is_nodes
        given_up = self.scheduler.die(worker, suspects)
        self._start_actors(now=True)
        failures = [Failed(number, work.task(number).seeds[0], WORKER_DIED, why, "") for number in given_up]
        return Reply(numbers=given_up, failures=failures)

    def close(self) -> None:
        """End the actors. May be called twice."""
        for worker in [*self._workers, *self._joining.values()]:
            _kill(worker)
        self._workers, self._joining = [], {}
        self._open.close()


def _nodes() -> list[dict[str, Any]]:
    """The nodes that are alive."""
    return [node for node in ray.nodes() if node["Alive"]]


def _cpus(node: Mapping[str, Any]) -> int:
    return int(node["Resources"].get("CPU", 0))


def _name(node_id: str) -> str:
    """Name of a node, for people."""
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
    """Return the calls that have an answer; wait for one, at most ``seconds``."""
    interruption.check()
    if not calls:
        return []
    ready, others = ray.wait(calls, timeout=seconds)
    return [*ready, *(ray.wait(others, num_returns=len(others), timeout=0)[0] if ready and others else ())]


def _cause(error: Exception) -> str:
    """The last line of Ray's message: it names the exception."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _kill(worker: _Worker) -> None:
    with suppress(Exception):  # it is gone already, or Ray is
        ray.kill(worker.actor)
