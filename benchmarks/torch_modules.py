"""Torch modules as a user writes them, one with a state: what results.py evolves on CartPole-v1."""

import gymnasium
import torch
from gymnasium.spaces import flatdim
from torch import Tensor, nn

WIDTH = 16


class Plain(nn.Module):
    """One hidden layer."""

    def __init__(self, observation_space: gymnasium.Space, action_space: gymnasium.Space) -> None:
        super().__init__()
        self.hidden = nn.Linear(flatdim(observation_space), WIDTH)
        self.out = nn.Linear(WIDTH, flatdim(action_space))

    def forward(self, observations: Tensor) -> Tensor:
        """Outputs, one for each action."""
        return self.out(torch.tanh(self.hidden(observations)))


class Remembering(nn.Module):
    """A layer that remembers its last outputs."""

    def __init__(self, observation_space: gymnasium.Space, action_space: gymnasium.Space) -> None:
        super().__init__()
        self.cell = nn.GRUCell(flatdim(observation_space), WIDTH)
        self.out = nn.Linear(WIDTH, flatdim(action_space))

    def initial_state(self, batch: int) -> Tensor:
        """Nothing is remembered when an episode begins."""
        return torch.zeros(batch, WIDTH)

    def forward(self, observations: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs, and what is remembered."""
        state = self.cell(observations, state)
        return self.out(state), state
