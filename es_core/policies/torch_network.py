"""The torch engine: one batched forward pass for all candidates, on the CPU or a CUDA device. Imports torch."""

from collections.abc import Callable, Sequence

import torch

from es_core.policies.network import Network, Policy, Vector
from es_core.policies.torch_rows import aligned


class TorchNetwork(Network):
    """Candidates whose parameters and memory are on ``device``.

    On a CUDA device a pass always computes all rows: the kernels, and so the last bits, may depend on how many there
    are. What a row computes is then a function of it and of the number of rows.

    Args:
        policy: its kind.
        rows: candidates at most.
        device: "cpu" or "cuda".

    Attributes:
        parameters: ``(rows, d)`` on the host. On a CUDA device ``load`` sends a row there; it stays where it is when
            ``keep`` moves what was sent.

    Raises:
        ValueError: there is no such device.
    """

    def __init__(self, policy: Policy, rows: int, device: str = "cpu") -> None:
        if device == "cuda" and not torch.cuda.is_available():
            raise ValueError("device='cuda': torch sees no CUDA device on this machine; use device='cpu'")
        self._is_cuda = device == "cuda"
        self._parameters_host = self._host(rows, aligned(policy.size))[:, : policy.size]
        self._inputs_host = self._host(rows, policy.inputs)
        self._outputs_host = self._host(rows, policy.outputs)
        self.parameters: Vector = self._parameters_host.numpy()
        self.inputs: Vector = self._inputs_host.numpy()
        # On the CPU the two are one.
        self._parameters = self._parameters_host.to(device)
        self._inputs = self._inputs_host.to(device)
        self._rows = policy.torch_rows(self._parameters)

    def _host(self, rows: int, columns: int) -> torch.Tensor:
        return torch.zeros(rows, columns, pin_memory=self._is_cuda)

    def forward(self, width: int) -> Vector:
        """Raw outputs ``(width, m)``."""
        with torch.inference_mode():
            if not self._is_cuda:
                return self._on_cpu(width)
            self._inputs.copy_(self._inputs_host, non_blocking=True)
            self._outputs_host.copy_(self._rows.forward(self._inputs), non_blocking=True)
            torch.cuda.current_stream().synchronize()
            return self._outputs_host[:width].numpy()

    def _on_cpu(self, width: int) -> Vector:
        # A product's last bits depend on the number of threads, and on how they share the rows.
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return self._rows.forward(self._inputs[:width]).numpy()
        finally:
            torch.set_num_threads(threads)

    def load(self, row: int, write: Callable[[Vector], object]) -> None:
        """Let ``write`` put a candidate's parameters into ``row``, a buffer ``(d,)``, and send them to the device."""
        write(self.parameters[row])
        if self._is_cuda:
            self._parameters[row].copy_(self._parameters_host[row])

    def reset(self, row: int) -> None:
        """Forget what ``row`` remembers of its episode."""
        self._rows.reset(row)

    def keep(self, rows: Sequence[int]) -> None:
        """Move these rows, in ascending order, to the front; the others are free."""
        moved = [(row, old) for row, old in enumerate(rows) if row != old]
        if not moved:
            return
        to, origin = torch.tensor(moved, device=self._parameters.device).T
        for buffer in (self._parameters, *self._rows.memory):
            buffer[to] = buffer[origin]
        for row, old in moved:
            self.inputs[row] = self.inputs[old]
