"""DQN of Stable-Baselines3 balances a ball on a plate: python sb3_dqn_balancing_plate.py [STEPS]."""

import sys

import torch
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

torch.set_num_threads(1)  # networks as small as these are computed faster so
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
# DQN chooses one of n actions: Discrete(4) instead of MultiBinary(2).
env = make_vec_env("es_envs.gym:BalancingPlate-v0", n_envs=4, seed=0, env_kwargs={"action_encoding": "discrete"})
model = DQN(
    "MlpPolicy",
    env,
    learning_rate=1e-3,
    learning_starts=1000,
    gradient_steps=4,
    target_update_interval=1000,
    exploration_fraction=0.2,
    seed=0,
    device="cpu",
)
model.learn(steps)
score, _ = evaluate_policy(model, env, n_eval_episodes=4)
env.close()
print(f"steps of an episode: {score:.0f} after {model.num_timesteps} steps")
