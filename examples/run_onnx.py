"""Play an exported policy with onnxruntime and Gymnasium alone: python run_onnx.py policy.onnx CartPole-v1 SEED..."""

import sys

import gymnasium
import numpy as np
import onnxruntime

path, env_id, *seeds = sys.argv[1:]
policy, env = onnxruntime.InferenceSession(path), gymnasium.make(env_id)
# The observation, the mask of the actions if the environment gives one, and what the policy remembers.
names = [value.name for value in policy.get_inputs()]
masked = "action_mask" in names
for seed in map(int, seeds):
    observation, info = env.reset(seed=seed)
    states = [np.zeros((1, *value.shape[1:]), np.float32) for value in policy.get_inputs()[1 + masked :]]
    total, over = 0.0, False
    while not over:
        mask = [np.array([info["action_mask"]], bool)] if masked else []
        inputs = [np.array([observation]), *mask, *states]  # a batch of one
        action, *states = policy.run(None, dict(zip(names, inputs, strict=True)))
        observation, reward, terminated, truncated, info = env.step(action[0])
        total, over = total + float(reward), terminated or truncated
    print(seed, total)
