"""Algorithms of Stable-Baselines3 and its contrib package by name, and checks of their hyperparameters."""

import difflib
import importlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, Literal

import gymnasium
from gymnasium.spaces import Box, Dict, Discrete, Tuple

import es_envs
from es_core.config.checks import json_object, number, whole
from es_core.config.train_config import TrainConfig
from es_core.policies.by_name import make_policy
from es_core.policies.layered import Layered
from es_core.policies.layers import Dense
from es_core.policies.network import Policy
from es_core.rollout.environment import make_env
from es_envs.closing import closing_env

OWN_OPTIONS: Mapping[str, Any] = {"n_envs": 1, "warmup_steps": 8192, "exploration_std": 0.2}
"""Options of ours in addition to the algorithm's own: copies of the environment that take turns; and, for a policy that
is transferred, steps for which it does not change while the critic learns, and the standard deviation with which it
explores (of half the distance between the bounds, or in front of a tanh)."""

_RESERVED = frozenset({
    "policy", "env", "seed", "verbose", "tensorboard_log", "stats_window_size", "monitor_wrapper",
    "optimize_memory_usage", "replay_buffer_class", "replay_buffer_kwargs", "rollout_buffer_class",
    "rollout_buffer_kwargs",
})  # fmt: skip
# Arguments of SB3's policies that are settings here, that need a class, or that would change what the actor computes.
_NETWORK = frozenset({
    "observation_space", "action_space", "lr_schedule", "activation_fn", "use_sde", "clip_mean", "squash_output",
    "normalize_images", "features_extractor_class", "features_extractor_kwargs", "share_features_extractor",
    "optimizer_class", "full_std", "use_expln",
})  # fmt: skip


@dataclass(frozen=True)
class Algorithm:
    """An algorithm of Stable-Baselines3.

    Attributes:
        target: module and class.
        acts: "sampled": it draws from a distribution, over actions of any kind. "bounded": its actions lie between -1
            and 1, and are stretched from bound to bound. "greedy": it takes one of several, of the largest value.
        critic: layer sizes of its critic, by the name that ``net_arch`` has for it.
        defaults: hyperparameters that differ from its own defaults.
        takes_over: hyperparameters that also differ where it takes over a policy; None: it cannot.
    """

    target: str
    acts: Literal["sampled", "bounded", "greedy"]
    critic: Mapping[str, tuple[int, ...]]
    defaults: Mapping[str, Any]
    takes_over: Mapping[str, Any] | None

    @property
    def is_bounded(self) -> bool:
        """True if its actions lie between -1 and 1."""
        return self.acts == "bounded"

    def load(self) -> type[Any]:
        """Import the class.

        Raises:
            ImportError: its package is not installed.
        """
        module, _, name = self.target.partition(":")
        try:
            loaded: type[Any] = getattr(importlib.import_module(module), name)
        except ImportError as error:
            raise ImportError(f"{name} needs {module}: pip install 'es-envs[rl]' ({error})") from error
        return loaded


_SMALL, _WIDE = (64, 64), (256, 256)
_NOISE = {"action_noise": 0.1}  # of the TD3 paper (Fujimoto et al. 2018); without any, nothing is explored
_SMALL_ENTROPY = {"ent_coef": "auto_0.01", "learning_starts": 0}  # from 1 on, entropy would first undo the policy
_FEW_RANDOM = {"exploration_initial_eps": 0.1, "learning_starts": 0}

ALGORITHMS: Mapping[str, Algorithm] = {
    "a2c": Algorithm("stable_baselines3:A2C", "sampled", {"vf": _SMALL}, {}, {}),
    "ddpg": Algorithm("stable_baselines3:DDPG", "bounded", {"qf": _WIDE}, _NOISE, {"learning_starts": 0}),
    "dqn": Algorithm("stable_baselines3:DQN", "greedy", {}, {}, _FEW_RANDOM),
    "ppo": Algorithm("stable_baselines3:PPO", "sampled", {"vf": _SMALL}, {}, {}),
    "sac": Algorithm("stable_baselines3:SAC", "bounded", {"qf": _WIDE}, {}, _SMALL_ENTROPY),
    "td3": Algorithm("stable_baselines3:TD3", "bounded", {"qf": _WIDE}, _NOISE, {"learning_starts": 0}),
    "crossq": Algorithm("sb3_contrib:CrossQ", "bounded", {"qf": (1024, 1024)}, {}, None),
    "qrdqn": Algorithm("sb3_contrib:QRDQN", "greedy", {}, {}, None),
    "tqc": Algorithm("sb3_contrib:TQC", "bounded", {"qf": _WIDE}, {}, _SMALL_ENTROPY),
    "trpo": Algorithm("sb3_contrib:TRPO", "sampled", {"vf": _SMALL}, {}, None),
}


def require_algorithm(config: TrainConfig, algorithm: Algorithm, *, from_policy: bool) -> None:
    """Refuse, before anything starts, an algorithm that does not fit.

    Args:
        config: the run's config.
        algorithm: the algorithm that its strategy names.
        from_policy: True if the run starts from a policy.

    Raises:
        ValueError: the algorithm does not fit the actions or the policy, or an option is refused; it says why.
        ImportError: its package is not installed.
    """
    if from_policy and algorithm.takes_over is None:
        able = ", ".join(each for each, other in ALGORITHMS.items() if other.takes_over is not None)
        raise ValueError(f"strategy {config.strategy!r} cannot start from a policy; these can: {able}")
    if config.steps_per_generation is None:
        raise ValueError(
            f"strategy {config.strategy!r} needs steps_per_generation: a generation is a block of so many steps"
        )
    _require_options(config, algorithm)
    definition = es_envs.definition(config.env_id)
    with closing_env(make_env(definition, config), definition.label) as env:
        _require_actions(config, algorithm, env.action_space)
        policy = make_policy(config, env.observation_space, env.action_space)
    if not dense_layers_of(policy)[-1].bias:
        raise ValueError(
            f"policy {config.policy!r} has no bias, and networks of Stable-Baselines3 have one: use policy='mlp' and "
            "hidden_sizes=()"
        )


def _require_options(config: TrainConfig, algorithm: Algorithm) -> None:
    options, made = config.strategy_options, algorithm.load()
    known = {name for name in signature(made).parameters if not name.startswith("_")} - _RESERVED
    _require_known(config, "", options, known | {*OWN_OPTIONS})
    if algorithm.acts != "sampled" and options.get("use_sde"):
        raise ValueError(f"strategy {config.strategy!r}: use_sde clips the mean of actions, which no policy here does")
    wrong = {
        "n_envs": whole(1)(options.get("n_envs", 1)),
        "warmup_steps": whole(0)(options.get("warmup_steps", 0)),
        "exploration_std": number(0, above=True)(options.get("exploration_std", 1.0)),
        "policy_kwargs": json_object(options.get("policy_kwargs", {})),
    }
    for name, expected in wrong.items():
        if expected:
            raise ValueError(f"strategy_options: {name} must be {expected}, got {options[name]!r}")
    inner = options.get("policy_kwargs", {})
    _require_known(
        config, "policy_kwargs: ", inner, {*signature(made.policy_aliases["MlpPolicy"]).parameters} - _NETWORK
    )
    sizes = inner.get("net_arch", {})
    if not isinstance(sizes, Mapping) or {*sizes} - {*algorithm.critic}:
        critic = " or ".join(f'such as {{"{name}": [64, 64]}}' for name in algorithm.critic) or "and it has none"
        raise ValueError(
            f"strategy_options: net_arch is for the critic alone, {critic}: the actor's layers are the setting "
            "hidden_sizes"
        )


def _require_known(config: TrainConfig, where: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(sorted(known))}"
            raise ValueError(f"strategy_options: {where}strategy {config.strategy!r} has no option {name!r}; {hint}")


def _require_actions(config: TrainConfig, algorithm: Algorithm, space: gymnasium.Space[Any]) -> None:
    if isinstance(space, Dict | Tuple):
        raise ValueError(
            f"strategy {config.strategy!r} is not for several actions at once, and those of {config.env_id} are "
            f"{space}: choose a strategy that evolves, such as 'openai_es'"
        )
    is_box = isinstance(space, Box) and config.action_bins is None
    fitting = {"sampled": True, "bounded": is_box, "greedy": isinstance(space, Discrete)}
    if not fitting[algorithm.acts]:
        needs = {"bounded": "Box actions without action_bins", "greedy": "Discrete actions"}[algorithm.acts]
        others = ", ".join(f"sb3:{name}" for name, other in ALGORITHMS.items() if fitting[other.acts])
        raise ValueError(
            f"strategy {config.strategy!r} is for {needs}, "
            f"and those of {config.env_id} are {space}; these fit: {others}"
        )
    if algorithm.is_bounded and not (isinstance(space, Box) and space.is_bounded()):
        raise ValueError(
            f"strategy {config.strategy!r} is for actions with bounds, and those of {config.env_id} are {space}"
        )


def dense_layers_of(policy: Policy) -> tuple[Dense, ...]:
    """The layers of a policy that is a perceptron, as the networks of Stable-Baselines3 are.

    Raises:
        ValueError: it is another one; the message says why it cannot be learnt by gradients here.
    """
    layers = policy.layers if isinstance(policy, Layered) else ()
    dense = tuple(layer for layer in layers if isinstance(layer, Dense))
    if not layers or dense != layers:
        name = policy.config.policy
        why = "it remembers" if name in {"rnn", "lstm", "gru"} else "it is a module or script of its own"
        raise ValueError(
            f"policy {name!r} cannot be learnt by an algorithm of Stable-Baselines3 here, since "
            f"{'it is for images' if name.startswith('cnn') else why}: only 'mlp' can, and 'linear' once it is evolved"
        )
    return dense
