"""Actors of Stable-Baselines3 and parameters of a policy: the same function, one way and the other. Imports torch."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.distributions import DiagGaussianDistribution
from stable_baselines3.common.torch_layers import create_mlp
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from torch import Tensor, nn

from es_core.policies.actions import widths
from es_core.policies.layers import matrices
from es_core.policies.network import Policy, Vector
from es_stable_baselines3.algorithms import dense_layers_of


@dataclass(frozen=True, eq=False)
class Scale:
    """The scale on which an actor has the policy's raw outputs ``(m,)``: ``gain * outputs + offset``.

    Neither changes an action: algorithms whose actions lie between -1 and 1 have them on that scale, and logits, or
    values of choices, are greatest where raw outputs are.
    """

    gain: NDArray[np.float64]
    offset: NDArray[np.float64]


def scale_of(policy: Policy, *, bounded: bool) -> Scale:
    """The scale of an actor's outputs, by the policy's action space alone."""
    gain, offset = np.ones(policy.outputs), np.zeros(policy.outputs)
    if bounded and policy.actions.decoding == "clip":
        space: Any = policy.action_space
        low, high = space.low.ravel().astype(float), space.high.ravel().astype(float)
        width = widths(space)
        gain, offset = 2 / width, -(high + low) / width
    return Scale(gain, offset)


def read(model: Any, policy: Policy, scale: Scale) -> Vector:
    """The parameters ``(d,)`` with which ``policy`` acts like a model's actor without exploration."""
    layers = list(_affine(actor_modules(model)))
    weight, bias = layers[-1]
    if len(bias) > policy.outputs:  # quantiles of each value: their mean is linear, too
        weight, bias = (part.reshape(-1, policy.outputs, *part.shape[1:]).mean(0) for part in (weight, bias))
    layers[-1] = weight / scale.gain[:, np.newaxis], (bias - scale.offset) / scale.gain
    parameters = np.zeros(policy.size, np.float32)
    for (matrix,), (weight, bias) in zip(matrices(parameters, dense_layers_of(policy)), layers, strict=True):
        matrix[:, :-1], matrix[:, -1] = weight, bias
    return parameters


def write(model: Any, policy: Policy, parameters: Vector, scale: Scale) -> None:
    """Let a model's actor act like ``policy`` with these parameters ``(d,)``; its target network, too."""
    own = [matrix.astype(np.float64) for (matrix,) in matrices(parameters, dense_layers_of(policy))]
    own[-1] = own[-1] * scale.gain[:, np.newaxis]
    own[-1][:, -1] += scale.offset
    linear = [module for module in actor_modules(model) if isinstance(module, nn.Linear)]
    with torch.no_grad():
        for module, matrix in zip(linear, own, strict=True):
            module.weight.copy_(torch.from_numpy(matrix[:, :-1]))
            module.bias.copy_(torch.from_numpy(matrix[:, -1]))
    for name in ("actor", "q_net"):
        if hasattr(model.policy, f"{name}_target"):
            getattr(model.policy, f"{name}_target").load_state_dict(getattr(model.policy, name).state_dict())


def explore(model: Any, std: float, policy: Policy, *, bounded: bool) -> None:
    """Let an actor that was handed over draw its actions with this standard deviation, if it draws any."""
    with torch.no_grad():
        if hasattr(model.policy, "actor") and hasattr(model.policy.actor, "log_std"):
            model.policy.actor.log_std.weight.zero_()
            model.policy.actor.log_std.bias.fill_(np.log(std))
        elif hasattr(model.policy, "log_std"):
            space: Any = policy.action_space
            width = np.ones(policy.outputs)
            if not bounded and policy.actions.decoding == "clip" and space.is_bounded():
                width = widths(space) / 2
            model.policy.log_std.copy_(torch.from_numpy(np.log(std * width)))


def freeze(model: Any, *, frozen: bool) -> None:
    """Exclude the actor from learning, or include it again; the critic continues."""
    policy = model.policy
    parts: list[Any] = [policy.actor] if hasattr(policy, "actor") else list(actor_modules(model))
    parameters = [parameter for part in parts for parameter in part.parameters()]
    parameters += [policy.log_std] if hasattr(policy, "log_std") else []
    for parameter in parameters:
        parameter.requires_grad_(not frozen)


class ClippedGaussian(DiagGaussianDistribution):
    """Actions drawn from a Gaussian and then clipped, for policies whose outputs are clipped instead of squashed.

    Their log-probability is that of the draw before it was clipped.
    """

    def actions_from_params(self, mean_actions: Tensor, log_std: Tensor, deterministic: bool = False) -> Tensor:
        """Draw actions, or take the means, and clip them."""
        return clip(super().actions_from_params(mean_actions, log_std, deterministic))

    def log_prob_from_params(self, mean_actions: Tensor, log_std: Tensor) -> tuple[Tensor, Tensor]:
        """Draw actions, and return them with the logarithms of their densities."""
        drawn = super().actions_from_params(mean_actions, log_std)
        return clip(drawn), self.log_prob(drawn)


class Clip(nn.Module):
    """The end of an actor whose outputs are clipped to [-1, 1]."""

    def forward(self, values: Tensor) -> Tensor:
        """Clip."""
        return clip(values)


def clip(values: Tensor) -> Tensor:
    """Clip to [-1, 1], with a gradient that still leads values back which are outside."""
    clipped: Tensor = _Clip.apply(values)  # type: ignore[no-untyped-call]
    return clipped


class _Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        ctx.save_for_backward(values)
        return values.clamp(-1, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (values,), (gradient,) = ctx.saved_tensors, gradients
        leads_outwards = ((values > 1) & (gradient < 0)) | ((values < -1) & (gradient > 0))  # a step goes against it
        return gradient.masked_fill(leads_outwards, 0.0)


class _ValueAndAdvantages(QNetwork):
    """Values of actions as the value of the state, less what each action's output is below the greatest one.

    So the critic, which is the value of the state, can learn while all decisions stay what they are.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.value = nn.Sequential(*create_mlp(self.features_dim, 1, [64, 64], nn.Tanh))

    def forward(self, obs: Any) -> Tensor:
        """The values ``(batch, m)``."""
        outputs = super().forward(obs)
        below: Tensor = outputs - outputs.max(1, keepdim=True).values
        value: Tensor = self.value(self.extract_features(obs, self.features_extractor))
        return value + below


class TakenOverDQN(DQNPolicy):
    """The policy of a DQN that takes over an actor: its outputs are advantages, next to a value of the state."""

    def make_q_net(self) -> QNetwork:
        """Make the network, or its target."""
        return _ValueAndAdvantages(**self._update_features_extractor(self.net_args, None)).to(self.device)


def clip_instead_of_squash(model: Any) -> None:
    """Let the actor of an algorithm with bounded actions clip its outputs, where it would squash them by tanh."""
    for name in ("actor", "actor_target"):
        actor = getattr(model.policy, name, None)
        if actor is None:
            continue
        if hasattr(actor, "action_dist"):
            actor.action_dist = ClippedGaussian(model.action_space.shape[0])
        else:
            actor.mu[-1] = Clip()


def actor_modules(model: Any) -> Iterator[nn.Module]:
    """The layers of a model's actor, one after the other, from observation to outputs."""
    policy = model.policy
    if hasattr(policy, "action_net"):
        yield from (*policy.mlp_extractor.policy_net, policy.action_net)
    elif hasattr(policy, "actor"):
        yield from getattr(policy.actor, "latent_pi", ())
        yield from policy.actor.mu if isinstance(policy.actor.mu, nn.Sequential) else (policy.actor.mu,)
    else:
        yield from policy.quantile_net.quantile_net if hasattr(policy, "quantile_net") else policy.q_net.q_net


def _affine(modules: Iterator[nn.Module]) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Weight and bias of each linear layer, with a batch normalisation in front of it folded in."""
    factor: Any = 1.0
    shift: Any = 0.0
    for module in modules:
        if isinstance(module, nn.Linear):
            weight, bias = _numbers(module.weight), _numbers(module.bias)
            yield weight * factor, bias + weight @ np.broadcast_to(shift, weight.shape[1])
            factor, shift = 1.0, 0.0
        elif hasattr(module, "ra_mean"):  # BatchRenorm1d of CrossQ
            renorm: Any = module
            factor = _numbers(renorm.scale) / np.sqrt(_numbers(renorm.ra_var) + renorm.eps)
            shift = _numbers(renorm.bias) - _numbers(renorm.ra_mean) * factor


def _numbers(tensor: Any) -> NDArray[np.float64]:
    return np.asarray(tensor.detach().cpu().numpy(), np.float64)
