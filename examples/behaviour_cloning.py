"""A small network learns by imitation what an evolved policy does on the racing track: python behaviour_cloning.py."""

import os
import tempfile

import minari
import numpy as np
import torch

import es_envs
from es_core import Checkpoint, collect

teacher = Checkpoint.pretrained("RaceCar-v0")
with tempfile.TemporaryDirectory() as folder:
    dataset = collect(teacher, folder, episodes=20)
    os.environ["MINARI_DATASETS_PATH"] = folder
    episodes = list(minari.load_dataset(dataset.dataset_id).iterate_episodes())
seen = torch.tensor(np.concatenate([episode.observations[:-1] for episode in episodes]))
done = torch.tensor(np.concatenate([episode.actions for episode in episodes]))

torch.manual_seed(0)
torch.set_num_threads(1)  # networks as small as these are computed faster so
student = torch.nn.Sequential(
    torch.nn.Linear(seen.shape[1], 4), torch.nn.Tanh(), torch.nn.Linear(4, done.shape[1]), torch.nn.Tanh()
)
optimizer = torch.optim.Adam(student.parameters(), lr=0.01)
for _ in range(1000):
    batch = torch.randint(len(seen), (256,))
    loss = torch.nn.functional.mse_loss(student(seen[batch]), done[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

env = es_envs.make("RaceCar-v0")
finished = 0
for seed in range(10):
    observation, info = env.reset(seed=seed)
    ended = False
    while not ended:
        with torch.no_grad():
            action = student(torch.from_numpy(observation)).numpy()
        observation, _, terminated, truncated, info = env.step(action)
        ended = terminated or truncated
    finished += info["is_success"]
print(f"learnt from {dataset.steps} steps; the student finishes {finished} of 10 drives")
