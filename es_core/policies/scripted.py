"""Scripted policies: written by hand, played, scored and filmed like evolved ones, but without parameters to evolve."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from es_core.config.choices import SCRIPTED
from es_core.policies.actor import Actor
from es_core.policies.network import Policy, Vector
from es_core.policies.normalization import ObservationStatistics, Statistics

if TYPE_CHECKING:
    import torch

    from es_core.policies.batched_layers import Rows


class ScriptedPolicy(Policy):
    """Stands for a script of the environment's definition, which a rollout makes for each episode."""

    engines = ("auto",)  # none computes it
    size = 0

    @property
    def name(self) -> str:
        """The script's name in the definition."""
        return self.config.policy.removeprefix(SCRIPTED)

    def initial(self, seed: int) -> Vector:  # noqa: ARG002
        """No parameters."""
        return np.zeros(0, np.float32)

    def batched(self, parameters: "torch.Tensor") -> "Rows":  # noqa: ARG002
        """Refused: there is no network."""
        self._refuse()

    def module(self, parameters: Vector, statistics: Statistics | None) -> "torch.nn.Module":  # noqa: ARG002
        """Refused: there is no network."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ValueError(f"{self.name!r} is a scripted policy, without a network: it only plays in its environment")


class ScriptedActor(Actor):
    """A script as an actor: ``begin`` gives it the one of each episode."""

    def __init__(self, policy: ScriptedPolicy) -> None:
        super().__init__(policy)
        self._act: Callable[..., Any] = self.outputs

    def begin(self, act: Callable[..., Any]) -> None:
        """Let ``act`` choose the actions from now on."""
        self._act = act
        self.takes_masks = getattr(act, "takes_masks", None)

    def load(self, parameters: Vector, statistics: Statistics | None = None) -> None:
        """Do nothing: a script has no parameters."""

    def reset(self, *, noise_seed: int | None = None) -> None:
        """Do nothing: a script does not explore."""

    def __call__(self, observation: Any, mask: Any = None) -> Any:
        """Return the script's action."""
        return self._act(observation) if mask is None else self._act(observation, mask)

    def outputs(self, observation: Any) -> Vector:  # noqa: ARG002
        """Refused: there is no network."""
        raise ValueError("a scripted policy has no raw outputs, and acts only within an episode")

    def collect(self) -> None:
        """Do nothing: a script's observations are not normalised."""

    def statistics(self, count: int) -> ObservationStatistics:  # noqa: ARG002
        """Return statistics of no observations."""
        return ObservationStatistics.empty(self.policy.inputs)
