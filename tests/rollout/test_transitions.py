"""Recorded episodes, from which a strategy with a learner learns."""

import numpy as np
import pytest
from gymnasium import spaces

from es_core import TrainConfig
from es_core.policies.by_name import make_policy
from es_core.rollout.transition_recorder import TransitionRecorder
from es_envs import Episode

SPACE = spaces.Dict({"arm": spaces.Box(-9, 9, (2,), np.float32), "gear": spaces.Discrete(3)})
SEEN = [{"arm": np.float32([k, -k]), "gear": k} for k in range(3)]


def recorder():
    config = TrainConfig(env_id="Walk-v0", policy="linear", observation_normalization=False, action_squash="clip")
    return TransitionRecorder(make_policy(config, SPACE, spaces.Box(-1, 1, (2,), np.float32)))


def test_transitions_are_what_was_seen_done_and_paid_step_by_step():
    recorded = recorder()
    (record,) = recorded.observers
    for k in (1, 2):
        record(SEEN[k], np.float32([k / 4, -k / 4]), float(k), {})
    episode = Episode(seed=0, total_reward=3.0, length=2, terminated=True, truncated=False, final_info={},
                      fitnesses={}, first_observation=SEEN[0])  # fmt: skip
    transitions = recorded.transitions(episode)
    flat = [[0, 0, 1, 0, 0], [1, -1, 0, 1, 0], [2, -2, 0, 0, 1]]
    np.testing.assert_array_equal(transitions.observations, np.array(flat, np.float32))
    np.testing.assert_array_equal(transitions.actions, np.array([[0.25, -0.25], [0.5, -0.5]], np.float32))
    np.testing.assert_array_equal(transitions.rewards, np.array([1, 2], np.float32))
    assert transitions.terminated


def test_what_a_learner_would_never_forget_is_refused():
    (record,) = recorder().observers
    with pytest.raises(ValueError, match="the observation is not finite"):
        record({"arm": np.float32([np.nan, 0]), "gear": 0}, np.zeros(2), 0.0, {})
    for reward in (np.inf, np.nan, 1e16):
        with pytest.raises(ValueError, match="a learner needs finite ones of at most"):
            record(SEEN[0], np.zeros(2), reward, {})
