"""Policies that a user brings: any ``torch.nn.Module``, by name. Imports torch, and the user's module."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from es_core import seeding
from es_core.config.train_config import TrainConfig
from es_core.policies.batched_layers import Rows
from es_core.policies.batched_modules import BatchedModule, Flattened, described, has_state, parts_of
from es_core.policies.network import Policy, Vector
from es_core.policies.normalization import Statistics
from es_envs import import_path


class TorchPolicy(Policy):
    """A user's torch module, built as ``Class(observation_space, action_space, **policy_options)``.

    ``forward(observations) -> raw outputs`` takes float32 observations ``(batch, ...)``, in their own shape if the
    space is a Box (pixels as they are, 0 to 255), else flattened as ``gymnasium.spaces.flatten`` does, and returns
    ``(batch, m)``: a number for each entry of a Box action, for each choice of a Discrete or MultiDiscrete one, for
    each bit of a MultiBinary one; ``make_actions`` says how the action settings change that.

    A module with memory has ``initial_state(batch) -> state``, a tensor or a tuple of tensors, and
    ``forward(observations, state) -> (raw outputs, state)``.

    The flat vector is its parameters in the order of ``named_parameters()``.

    Args:
        config: see ``Policy``; its policy is "module:Class".
        observation_space: see ``Policy``.
        action_space: see ``Policy``.

    Raises:
        ValueError: the class cannot be imported or built, or the module cannot be evolved, or a setting is not for
            modules; the message says why.
    """

    engines = ("torch",)

    def __init__(
        self, config: TrainConfig, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]
    ) -> None:
        super().__init__(config, observation_space, action_space)
        self._name, self._options = config.policy, dict(config.policy_options)
        _require_built_in_settings_alone(config)
        is_box = isinstance(observation_space, spaces.Box)
        self.observation_shape: tuple[int, ...] = observation_space.shape if is_box else (self.inputs,)  # type: ignore[assignment]
        with self._blame("cannot be imported"):
            self._make = import_path.load(self._name)
        if not (inspect.isclass(self._make) and issubclass(self._make, nn.Module)):  # before it is called
            raise ValueError(f"policy {self._name!r} must be a subclass of torch.nn.Module, got {self._make!r}")
        module = self.build()
        with _random_numbers(0):
            self._require_evolvable(module)
        self.size = sum(parameter.numel() for parameter in module.parameters())

    def build(self, seed: int = 0) -> nn.Module:
        """Build a new module with its own initial parameters; its random numbers are drawn from ``seed``.

        Raises:
            ValueError: the class fails.
        """
        with self._blame("cannot be built"), _random_numbers(seed):
            module: nn.Module = self._make(self.observation_space, self.action_space, **self._options)
        for name, parameter in module.named_parameters():
            if nn.parameter.is_lazy(parameter):
                raise ValueError(
                    f"policy {self._name!r}: parameter {name!r} has no shape yet: give its layer all its sizes"
                )
        return module.requires_grad_(False)

    def initial(self, seed: int) -> Vector:
        """The initial mean ``(d,)``: the parameters that the module itself chooses."""
        module = self.build(seeding.derive(seed, seeding.Purpose.INITIAL_MEAN))
        return np.concatenate([parameter.numpy().ravel() for parameter in module.parameters()])

    def batched(self, parameters: Tensor) -> Rows:
        """The modules of all rows."""
        return BatchedModule(self.build(), self.observation_shape, parameters, together=parameters.is_cuda)

    def module(self, parameters: Vector, statistics: Statistics | None) -> nn.Module:
        """One candidate: the user's module, behind flattened observations."""
        normalization, decisive = self.normalization(statistics), self.actions.decisive
        return Flattened(self.build(), self.observation_shape, parameters, normalization, decisive)

    def _require_evolvable(self, module: nn.Module) -> None:
        """Refuse a module that evolution cannot handle, and say why."""
        who = f"policy {self._name!r}"
        parameters = dict(module.named_parameters())
        if not parameters:
            raise ValueError(f"{who} has no parameters: there is nothing to evolve")
        for name, parameter in parameters.items():
            if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
                raise ValueError(
                    f"{who}: parameter {name!r} is {parameter.dtype} on {parameter.device}; make it torch.float32 on "
                    "the CPU; the run moves it to its device"
                )
        for name, part in module.named_modules():
            if isinstance(part, nn.modules.dropout._DropoutNd) and part.training and part.p > 0:  # noqa: SLF001
                raise ValueError(f"{who}: dropout {name!r} is active: {_EVALUATION_MODE}, or leave it out")
            if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.training:  # noqa: SLF001
                raise ValueError(
                    f"{who}: {name!r} normalises by the batch, which is one observation here, and changes with each: "
                    f"{_EVALUATION_MODE}, or use LayerNorm"
                )
        before = {name: buffer.clone() for name, buffer in module.named_buffers()}
        with self._blame("fails in a forward pass"), torch.inference_mode():
            first, second = self._try(module, who), self._try(module, who)
        for name, buffer in module.named_buffers():
            if name not in before or not torch.equal(buffer, before[name]):
                raise ValueError(
                    f"{who}: buffer {name!r} changes in a forward pass, and candidates would share it: keep what an "
                    "episode remembers in a state, which forward takes and returns"
                )
        if not torch.allclose(first, second, rtol=0, atol=0, equal_nan=True):
            raise ValueError(
                f"{who} gives different outputs for the same observation: it draws random numbers in its forward pass "
                "(functional dropout?) or remembers something outside its state"
            )

    def _try(self, module: nn.Module, who: str) -> Tensor:
        observations = torch.ones(1, *self.observation_shape)
        if not has_state(module):
            outputs, expected = module(observations), "raw outputs"
        else:
            state = module.initial_state(1)  # type: ignore[operator]
            result, expected = module(observations, state), "(raw outputs, state)"
            if not isinstance(result, tuple) or len(result) != 2:
                raise ValueError(f"{who} has initial_state: forward must return {expected}, got {described(result)}")
            outputs, after = result
            if [part.shape for part in parts_of(after)] != [part.shape for part in parts_of(state)]:
                raise ValueError(
                    f"{who}: forward returns the state {described(after)}, initial_state {described(state)}"
                )
        if not isinstance(outputs, Tensor) or outputs.shape != (1, self.outputs):
            hint = "" if has_state(module) or not isinstance(outputs, tuple) else "; a state needs initial_state(batch)"
            raise ValueError(
                f"{who}: forward must return {expected} of shape (batch, {self.outputs}), {self.actions.meaning}; for "
                f"one observation it returns {described(outputs)}{hint}"
            )
        return outputs.clone()

    @contextmanager
    def _blame(self, what: str) -> Iterator[None]:
        """Name the policy in errors."""
        try:
            yield
        except ValueError as error:
            if str(error).startswith("policy "):
                raise
            raise ValueError(f"policy {self._name!r} {what}: {error}") from error
        except Exception as error:
            raise ValueError(f"policy {self._name!r} {what}: {type(error).__name__}: {error}") from error


def _require_built_in_settings_alone(config: TrainConfig) -> None:
    """Refuse settings of the layers of built-in policies."""
    for name in ("initialization", "output_scale", "virtual_batch_normalization"):
        value, default = getattr(config, name), getattr(TrainConfig, name)
        if value != default:
            raise ValueError(
                f"policy {config.policy!r}: {name} is for built-in policies; your module chooses this itself: leave "
                f"{name} at {default!r}, got {value!r}"
            )


_EVALUATION_MODE = "call self.eval() at the end of __init__"


@contextmanager
def _random_numbers(seed: int) -> Iterator[None]:
    """Seed torch's random numbers with ``seed``, and restore their state afterwards."""
    before = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(before)
