"""PPO of Stable-Baselines3 drives the racing car: python sb3_ppo_racecar.py [STEPS]."""

import sys

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

torch.set_num_threads(1)  # networks as small as these are computed faster so
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
env = make_vec_env("es_envs.gym:RaceCar-v0", n_envs=4, seed=0)
model = PPO("MlpPolicy", env, n_steps=512, batch_size=256, seed=0, device="cpu")
model.learn(steps)
score, _ = evaluate_policy(model, env, n_eval_episodes=4)
env.close()
print(f"return of an episode: {score:.2f} after {model.num_timesteps} steps")
