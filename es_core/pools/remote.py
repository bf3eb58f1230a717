"""A worker of the batched pool: it steps environments, and asks the main process for the raw outputs of each step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from es_core.config import TrainConfig
from es_core.policies import Network, Policy
from es_core.pools.shared import Exchange, Slots
from es_core.pools.worker import ReadyReply, Reply, Task, Worker
from es_core.rollout import Lane, Rollouts
from es_core.strategies.population import Population
from es_envs import EnvDefinition


@dataclass(frozen=True)
class Step:
    """A worker's observations are in its slots.

    Attributes:
        tasks: which task is played in each of its rows, the first slots.
        fresh: tasks of which an episode begins.
        replies: to tasks that have ended since.
    """

    tasks: list[int]
    fresh: list[int]
    replies: list[Reply]


class RemoteNetwork(Network):
    """Raw outputs that another process computes; it knows the parameters, so ``load`` has nothing to write."""

    def __init__(self, policy: Policy, exchange: Exchange, slots: Slots) -> None:
        mine = slice(slots.first, slots.first + slots.count)
        inputs, outputs = exchange.map(slots.total, policy.inputs, policy.outputs)
        self.inputs, self._outputs = inputs[mine], outputs[mine]
        self.tasks: list[int] = []
        self.fresh: list[int] = []
        self.ask: Callable[[], None]  # the worker sets it

    def forward(self, width: int) -> Any:
        """Raw outputs ``(width, m)``."""
        self.ask()
        return self._outputs[:width]

    def assign(self, row: int, task: int) -> None:
        """Play ``task`` in ``row`` from now on."""
        self.tasks[row : row + 1] = [task]

    def reset(self, row: int) -> None:
        """An episode begins in ``row``."""
        self.fresh.append(self.tasks[row])

    def keep(self, rows: Sequence[int]) -> None:
        """Move these rows to the front."""
        for row, old in enumerate(rows):
            self.inputs[row] = self.inputs[old]
        self.tasks = [self.tasks[row] for row in rows]


class RemoteWorker(Worker):
    """Answers each message, a list of new tasks, with one ``Step``."""

    def __init__(self, connection: Any, rollouts: Rollouts, config: TrainConfig, network: RemoteNetwork) -> None:
        super().__init__(connection, rollouts, config)
        self._network = network
        network.ask = self._ask

    @classmethod
    def start(cls, connection: Any, definition: EnvDefinition, config: TrainConfig, exchange: Exchange) -> Self:
        """Make an environment, tell the main process its spaces, and be told its slots."""
        networks: list[RemoteNetwork] = []

        def network(policy: Policy, _: int) -> Network:
            connection.send([ReadyReply(policy.observation_space, policy.action_space, config.engine, 0)])
            networks.append(RemoteNetwork(policy, exchange, connection.recv()))
            return networks[0]

        return cls(connection, Rollouts(definition, config, network=network), config, networks[0])

    def serve(self) -> None:
        """Answer until the connection ends."""
        while True:
            message = self._receive()
            self._take(message)
            if not isinstance(message, Population):
                self._play()
                self._step()

    def _ask(self) -> None:
        self._step()
        self._take(self._receive())

    def _step(self) -> None:
        self._connection.send(Step(self._network.tasks, self._network.fresh, self._replies))
        self._network.fresh, self._replies = [], []

    def _load(self, population: Population, task: Task, lane: Lane) -> None:  # noqa: ARG002
        self._network.assign(lane.row, task.index)
