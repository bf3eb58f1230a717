"""Tiny torch modules that serve as policies, and some that cannot; this folder is on ``sys.path`` (see conftest.py)."""

from typing import NamedTuple

import torch
from gymnasium.spaces import flatdim
from torch import nn


class Net(nn.Module):
    """Two layers, for flat observations."""

    def __init__(self, observation_space, action_space, *, width=8):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(flatdim(observation_space), width), nn.LayerNorm(width), nn.Linear(width, flatdim(action_space))
        )

    def forward(self, observations):
        return self.layers(observations)


class Remembering(nn.Module):
    """An LSTM whose first state is evolved, too; ``nn.LSTM`` has its batch in the second dimension of the state."""

    def __init__(self, observation_space, action_space, *, width=8):
        super().__init__()
        self.first = nn.Parameter(torch.randn(1, 1, width))
        self.lstm = nn.LSTM(flatdim(observation_space), width, batch_first=True)
        self.out = nn.Linear(width, flatdim(action_space))

    def initial_state(self, batch):
        first = self.first.repeat(1, batch, 1)
        return first, torch.zeros_like(first)

    def forward(self, observations, state):
        values, state = self.lstm(observations.unsqueeze(1), state)
        return self.out(values.squeeze(1)), state


class Summing(Net):
    """Its state is one tensor: the sum of what it has seen."""

    def initial_state(self, batch):
        return torch.zeros(batch, self.layers[0].in_features)

    def forward(self, observations, state):
        state = 0.5 * state + observations
        return super().forward(state), state


class Wide(Net):
    """Two outputs for each entry of the action: its mean, and how far it varies."""

    def __init__(self, observation_space, action_space):
        super().__init__(observation_space, action_space)
        self.layers[-1] = nn.Linear(8, 2 * flatdim(action_space))


class WideRemembering(Remembering):
    def __init__(self, observation_space, action_space):
        super().__init__(observation_space, action_space)
        self.out = nn.Linear(8, 2 * flatdim(action_space))


class Seeing(nn.Module):
    """A convolution; parameters of two layers are one."""

    def __init__(self, observation_space, action_space):
        super().__init__()
        self.shape = observation_space.shape
        self.look = nn.Conv2d(3, 4, 8, stride=4)
        self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4)
        self.right.weight = self.left.weight
        self.out = nn.Linear(4, flatdim(action_space))
        self.register_buffer("scale", torch.tensor(1 / 255))

    def forward(self, observations):
        assert observations.shape[1:] == self.shape
        features = self.look(observations.permute(0, 3, 1, 2) * self.scale).relu().mean((2, 3))
        return self.out(torch.tanh(self.left(features)) + self.right(features))


class DroppingOut(Net):
    def __init__(self, *spaces):
        super().__init__(*spaces)
        self.dropout = nn.Dropout(0.1)


class DroppingOutUnseen(Net):
    def forward(self, observations):
        return nn.functional.dropout(super().forward(observations), 0.5)


class BatchNormalized(Net):
    def __init__(self, *spaces):
        super().__init__(*spaces)
        self.norm = nn.BatchNorm1d(flatdim(spaces[0]))

    def forward(self, observations):
        return super().forward(self.norm(observations))


class InEvaluation(BatchNormalized):
    """Neither dropout nor normalisation is active."""

    def __init__(self, *spaces):
        super().__init__(*spaces)
        self.dropout = nn.Dropout(0.1)
        self.eval()


class Counting(Net):
    def __init__(self, *spaces):
        super().__init__(*spaces)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, observations):
        self.count += 1
        return super().forward(observations)


class RememberingInSecret(Net):
    def __init__(self, *spaces):
        super().__init__(*spaces)
        self.last = 0.0

    def forward(self, observations):
        self.last = 0.5 * self.last + super().forward(observations)
        return self.last


class WithoutParameters(Net):
    def __init__(self, *spaces):
        super().__init__(*spaces)
        self.layers = nn.Identity()


class InHalfPrecision(Net):
    def __init__(self, *spaces):
        super().__init__(*spaces)
        self.half()


class Lazy(Net):
    def __init__(self, *spaces):
        super().__init__(*spaces)
        self.layers = nn.LazyLinear(flatdim(spaces[1]))


class TooWide(Net):
    def __init__(self, observation_space, action_space):
        super().__init__(observation_space, observation_space)


class FailingToBuild(Net):
    def __init__(self, *spaces):
        raise RuntimeError("no weights at this address")


class FailingForward(Net):
    def forward(self, observations):
        return observations @ observations


class StateWithoutBeginning(Net):
    def forward(self, observations):
        return super().forward(observations), observations


class BeginningWithoutState(Remembering):
    def forward(self, observations, state):
        return super().forward(observations, state)[0]


class OtherState(Remembering):
    def forward(self, observations, state):
        outputs, state = super().forward(observations, state)
        return outputs, state[0]


class StateOfText(Net):
    def initial_state(self, batch):
        return "fresh"

    def forward(self, observations, state):
        return super().forward(observations), state


class Parts(NamedTuple):
    sum: torch.Tensor
    count: torch.Tensor


class NamedState(Net):
    def initial_state(self, batch):
        return Parts(torch.zeros(batch, 1), torch.zeros(batch, 1))

    def forward(self, observations, state):
        return super().forward(observations), Parts(state.sum, state.count + 1)


def no_module(observation_space, action_space):
    return "a network"


NOT_CALLABLE = 3
