"""What is compiled of a policy: it has the same bits on every processor, and no NaN is hidden."""

import hashlib
import itertools
import math
import os
import platform
import subprocess
import sys
from pathlib import Path

import llvmlite.binding
import numpy as np
import pytest
from gymnasium import spaces

from es_core.config.train_config import TrainConfig
from es_core.policies import kernels
from es_core.policies.actor import NotFiniteError
from es_core.policies.by_name import make_policy
from es_core.policies.compilation import kernel
from es_core.policies.engines import make_actor
from es_core.policies.layers import matrices
from es_core.policies.noise import noise
from es_core.policies.normalization import ObservationStatistics, ReferenceBatch

VECTOR = spaces.Box(-np.inf, np.inf, (7,), np.float32)
IMAGE = spaces.Box(0, 255, (36, 40, 3), np.uint8)
BOTH = spaces.Dict({"camera": spaces.Box(0, 255, (3, 36, 40), np.uint8), "place": VECTOR})
BOX = spaces.Box(np.array([-1, -2, 0], np.float32), np.array([1, 2, 5], np.float32))
POLICIES = {
    "linear": ("linear", VECTOR, BOX, {}),
    "tanh, normalised": ("mlp", VECTOR, BOX, {"observation_normalization": True}),
    "relu, squashed": ("mlp", VECTOR, BOX, {"activation": "relu", "action_squash": "tanh"}),
    "noise": ("mlp", VECTOR, BOX, {"action_noise": 0.2}),
    "drawn normals": ("mlp", VECTOR, BOX, {"sample_actions": True}),
    "bins": ("mlp", VECTOR, BOX, {"action_bins": 5}),
    "drawn bins": ("mlp", VECTOR, BOX, {"action_bins": 5, "sample_actions": True}),
    "choice": ("mlp", VECTOR, spaces.Discrete(4, start=-1), {"sample_actions": True}),
    "choices": ("mlp", VECTOR, spaces.MultiDiscrete([3, 4]), {}),
    "bits": ("mlp", VECTOR, spaces.MultiBinary(5), {"sample_actions": True}),
    "reference batch": ("mlp", VECTOR, BOX, {"virtual_batch_normalization": True}),
    "rnn": ("rnn", VECTOR, BOX, {}),
    "lstm": ("lstm", VECTOR, BOX, {}),
    "gru": ("gru", VECTOR, BOX, {}),
    "images": ("cnn_small", IMAGE, BOX, {}),
    "images and numbers": ("cnn_nature", BOTH, BOX, {}),
    "images, reference batch": ("cnn_small", IMAGE, BOX, {"virtual_batch_normalization": True}),
}
every_policy = pytest.mark.parametrize("name", POLICIES)


def make(name):
    kind, observations, actions, fields = POLICIES[name]
    usual = {"hidden_sizes": (13, 9), "observation_normalization": False, "observation_std_floor": 0.1}
    config = TrainConfig(env_id="Walk-v0", policy=kind, **{**usual, "action_squash": "clip", **fields})
    return make_policy(config, observations, actions)


def parameters_of(policy):
    return np.float32(0.3) * noise(3, np.empty(policy.size, np.float32))


def observations_of(policy, count):
    """Flattened ones; pixels are whole numbers."""
    flat = noise(4, np.empty(count * policy.inputs, np.float32)).reshape(count, -1)
    return flat if policy.observation_space == VECTOR else np.floor(np.abs(flat) * np.float32(60))


def statistics_of(policy):
    if policy.config.virtual_batch_normalization:
        return ReferenceBatch(observations_of(policy, 128))
    if policy.config.observation_normalization:
        flat = observations_of(policy, 50).astype(float)
        return ObservationStatistics(50, flat.sum(0), (flat**2).sum(0))
    return None


def bits_of(name):
    """A digest of what an explored episode computes: raw outputs and actions."""
    policy = make(name)
    actor, digest = make_actor(policy, parameters_of(policy), statistics_of(policy)), hashlib.sha256()
    actor.reset(noise_seed=11)
    for flat in observations_of(policy, 8):
        observation = spaces.unflatten(policy.observation_space, flat)
        digest.update(np.asarray(actor(observation)).tobytes() + actor.outputs(observation).tobytes())
    return digest.hexdigest()


# The bits of this version; whoever changes them gives config.BITS another number.
DIGESTS = {
    "linear": "ec5996781da4735a2df944eeb535ae343d41c34aa3364e2796a66892d7b5c25b",
    "tanh, normalised": "3913a465d892f344949b81fc9bb51a16337589a1fd5ecc99820c9c60986efc9c",
    "relu, squashed": "aaf36f237ee157bbc670f08aa2a0d17f484e6b4fd07859608010747c3a2275d9",
    "noise": "7ba7c07a75d8225dbd30c4537bec6d9120026a8fc51b72d5d75372dd24945657",
    "drawn normals": "de8a7cb605a6ad2ba3978cbde950d4d90f9913382cf45d8a1147b8fbc85e68ff",
    "bins": "5844dcf7048589ca8eadfb3ba837b8db9fba28e4b3e5fe5afb156af231558b85",
    "drawn bins": "e3fa8b925225c960af186ad66484f245fa2f76574d7afc221fe0e687015d4645",
    "choice": "8c91da128be606b8f6b92dec5586bf2feb0ca7ebb26abc4a44a3241b6ff444ab",
    "choices": "ff33e4426fc12882ed6cfd5c73c3283774bc4b0fbfde88a32ca8fd53ad36bb49",
    "bits": "f23e815db284174a88841ffd80a549e9bdcadd94597f065c36baeb65cacfb7e7",
    "reference batch": "00e0be2be1d88996ff3a0dc0d9f98805edd51ac0a5f39ab50503fc7bdb6b7005",
    "rnn": "55dbeb3bbb89f05d0c026d1ae8b228c311aad186b97c4a96db99dbdbc7c5ef90",
    "lstm": "3286e3b6ebfcd5d2bbddf4954a29afeab456dfc80570c8f30a870adffd579773",
    "gru": "427332e6df779a7dc9b8daa07bf932ecae2ca34dfd6b586f672f9da48a09cd1e",
    "images": "6a562262837514572aeec8efaffc52b9baba75b8773d1f68eae79e9c9b39e7b9",
    "images and numbers": "67c3ce708cce8e328675e148e2c4872fff3db787354f25e709ef6fb93b69d78a",
    "images, reference batch": "149b189325065505d02bd024aacf94fbc0c242c2555b5adf58d4d116371ec921",
}


@every_policy
def test_a_policy_has_the_bits_that_every_processor_gives_it(name):
    assert bits_of(name) == DIGESTS[name]


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in {"x86_64", "AMD64"}, reason="these are names of x86-64 processors")
@pytest.mark.parametrize(
    ("processor", "parts"),
    [
        ("generic", ()),
        pytest.param("haswell", ("avx2", "fma"), marks=pytest.mark.long),
        ("skylake-avx512", ("avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd")),
    ],
)
def test_a_policy_compiled_for_another_processor_has_the_same_bits(processor, parts, tmp_path):
    here = llvmlite.binding.get_host_cpu_features()
    if not all(here.get(part) for part in parts):
        pytest.skip(f"this processor cannot run what is compiled for {processor}")
    own = {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ",".join(f"+{part}" for part in parts)}
    code = "import test_kernels as t; print({name: t.bits_of(name) for name in t.POLICIES} == t.DIGESTS)"
    environment = {**os.environ, **own, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parent)}
    words = [sys.executable, "-c", code]
    said = subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=280)
    assert said.stdout == "True\n"


def test_tanh_is_within_a_millionth_and_reaches_one():
    x = np.linspace(-20, 20, 2_000_001).astype(np.float32)
    y = x.copy()
    kernel("activate")(kernels.TANH, y)
    assert np.abs(y - np.tanh(x.astype(float))).max() < 1e-6
    assert np.abs(y).max() == 1
    np.testing.assert_array_equal(y[::-1], -y)


@pytest.mark.parametrize("activation", ["TANH", "RELU", "LINEAR"])
def test_an_activation_leaves_nan_as_it_is(activation):
    values = np.array([np.nan, 1.0, -np.nan, *[np.nan] * 30], np.float32)
    kernel("activate")(getattr(kernels, activation), values)
    assert np.isnan(values).sum() == 32


@every_policy
def test_nan_in_any_layer_is_reported_whatever_follows_it(name):
    policy = make(name)
    actor, observation = make_actor(policy), spaces.unflatten(policy.observation_space, observations_of(policy, 1)[0])
    for places in itertools.chain.from_iterable(matrices(np.arange(policy.size), policy.layers)):
        parameters = np.abs(parameters_of(policy))  # no relu is idle
        parameters[places[0, 0]] = np.nan
        actor.load(parameters, None)
        with pytest.raises(NotFiniteError, match=r"the policy's outputs are not finite: .*nan"):
            [actor(observation) for _ in range(2)]  # a recurrent layer's state is zero at first


@every_policy
@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_an_infinite_output_is_reported_although_a_bound_would_hide_it(name, value):
    policy = make(name)
    parameters = parameters_of(policy)
    matrices(parameters, policy.layers)[-1][0][0] = value  # of the first output
    observation = spaces.unflatten(policy.observation_space, observations_of(policy, 1)[0])
    with pytest.raises(NotFiniteError, match="the policy's outputs are not finite"):
        make_actor(policy, parameters)(observation)


@pytest.mark.parametrize("place", range(7))
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["linear", "tanh, normalised", "relu, squashed", "drawn normals", "choice", "lstm"])
def test_an_entry_that_is_not_finite_is_reported_wherever_it_is(name, place, value):
    policy = make(name)
    observation = observations_of(policy, 1)[0]
    observation[place] = value
    for given in (observation, observation.astype(float), list(observation)):
        with pytest.raises(NotFiniteError, match="the observation is not finite"):
            make_actor(policy, parameters_of(policy), statistics_of(policy))(given)
