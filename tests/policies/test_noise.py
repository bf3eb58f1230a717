"""Noise is random, and a function of its seed and place alone."""

import math
import os
import platform
import subprocess
import sys

import llvmlite.binding
import numpy as np
import pytest
from scipy import stats

from es_core.policies import kernels
from es_core.policies.noise import NOISE_BLOCK, fill, noise, noise_block, noise_blocks

SEEDS = (0, 1, 2**32, 2**63 - 1)
DISTRIBUTIONS = {"normal": stats.norm, "gumbel": stats.gumbel_r, "logistic": stats.logistic}

DIGEST = """
import hashlib, sys
sys.modules.update(dict.fromkeys({missing!r}))
import numpy as np
from es_core.policies.noise import add_noise, fill
digest = hashlib.sha256()
for seed in {seeds}:
    for block in 0, 1, 2**32 - 1:
        for distribution in "normal", "gumbel", "logistic":
            digest.update(fill(distribution, seed, block, np.empty(10_001, np.float32)).tobytes())
sums = np.zeros((2, 10_001))
add_noise(np.array({seeds}), np.array([0.3, -2, 0, 1e-3]), np.array([1.0, 2, 0, 3]), 5, *sums)
digest.update(sums.tobytes())
print(digest.hexdigest())
"""


def digest(*, missing=(), **variables):
    """Of much noise, made by a process of its own."""
    words = [sys.executable, "-c", DIGEST.format(missing=list(missing), seeds=list(SEEDS))]
    environment = os.environ | variables
    return subprocess.run(words, env=environment, check=True, capture_output=True, text=True, timeout=120).stdout


def random_bits(seeds, blocks, indices):
    """``(n, 64)`` of 0 and 1, for ``n`` seeds, blocks and indices."""
    pairs = _pairs(*(np.array(each, np.uint64) for each in np.broadcast_arrays(seeds, blocks, indices)))
    return (pairs[:, :, np.newaxis] >> np.arange(32, dtype=np.uint32) & 1).reshape(-1, 64)


def _pairs(seeds, blocks, indices):
    key = (seeds & np.uint64(2**32 - 1)).astype(np.uint32), (seeds >> np.uint64(32)).astype(np.uint32)
    return np.stack(kernels.bits(key, blocks.astype(np.uint32), indices.astype(np.uint32)), 1)


def drawn(distribution, count, *, seed=7):
    """``count`` numbers from consecutive blocks."""
    out = np.empty(count, np.float32)
    for block, place in noise_blocks(count):
        fill(distribution, seed, block, out[place])
    return out


def test_the_bits_are_those_of_threefry_as_published():
    """Random123 1.14, tests/kat_vectors, threefry2x32 with 13 rounds: counter, key, result."""
    known = [
        (0, 0, 0, 0, 0x9D1C5EC6, 0x8BD50731),
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFD36D048, 0x2D17272C),
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xBA3E4725, 0xF27D669E),
    ]
    for index, block, low, high, *result in known:
        seed, place = np.array([low | high << 32], np.uint64), np.array([[block], [index]], np.uint64)
        assert _pairs(seed, *place).tolist() == [result]


def test_every_bit_is_random_and_so_is_every_change_of_a_bit():
    count = 2**14
    one = random_bits(1, 0, np.arange(count))
    assert abs(one.mean(0) - 0.5).max() < 5 * 0.5 / math.sqrt(count)
    pairs = np.corrcoef(one.T) - np.eye(64)
    assert abs(pairs).max() < 5.5 / math.sqrt(count)
    for bit in range(63):  # of the seed; the others are of the block and the index
        flipped = [random_bits(1 ^ 1 << bit, 0, np.arange(count))]
        if bit < 32:
            flipped.append(random_bits(1, 1 << bit, np.arange(count)))
            flipped.append(random_bits(1, 0, np.arange(count) ^ 1 << bit))
        for other in flipped:
            assert abs((one ^ other).mean(0) - 0.5).max() < 5.5 * 0.5 / math.sqrt(count)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_numbers_have_their_distribution(distribution):
    numbers, expected = drawn(distribution, 2**18), DISTRIBUTIONS[distribution]
    for half in numbers[0::2], numbers[1::2]:
        assert stats.kstest(half, expected.cdf).pvalue > 1e-3
    mean, variance, skewness, kurtosis = expected.stats(moments="mvsk")
    assert numbers.mean() == pytest.approx(mean, abs=0.02)
    assert numbers.var() == pytest.approx(variance, rel=0.02)
    assert stats.skew(numbers) == pytest.approx(skewness, abs=0.1)
    assert stats.kurtosis(numbers) == pytest.approx(kurtosis, abs=0.3)


def test_normal_numbers_have_the_moments_of_theirs():
    numbers = drawn("normal", 2**22).astype(float)
    of_power = {1: 0, 2: 1, 3: 0, 4: 3, 5: 0, 6: 15, 8: 105}
    for power, moment in of_power.items():
        variance = math.prod(range(1, 2 * power, 2)) - moment**2
        assert abs((numbers**power).mean() - moment) < 5 * math.sqrt(variance / numbers.size), power


def test_tails_are_right_to_five_sigma():
    counts, size = np.zeros((2, 6)), 2**20
    blocks = 2**26 // size
    out = np.empty(size, np.float32)
    for block in range(blocks):
        fill("normal", 11, block, out)
        counts += [[(side * out > limit).sum() for limit in range(6)] for side in (1, -1)]
    expected = stats.norm.sf(range(6)) * blocks * size
    assert (abs(counts - expected) < 5 * np.sqrt(expected)).all(), counts / expected


def test_seeds_blocks_and_the_numbers_of_a_pair_are_uncorrelated():
    size = 2**12
    seeds = [*range(60), *(1 << bit for bit in range(6, 63)), *(2**63 - 1 - bit for bit in range(20))]
    rows = [fill("normal", seed, 0, np.empty(size, np.float32)) for seed in seeds]
    rows += [fill("normal", 1, block, np.empty(size, np.float32)) for block in (*range(1, 60), 2**31, 2**32 - 1)]
    rows = np.array(rows, float)
    for values in (rows, abs(rows), rows[:, 0::2], rows[:, 1::2]):
        assert abs(np.corrcoef(values) - np.eye(len(rows))).max() < 6 / math.sqrt(values.shape[1])
    whole = rows.ravel()
    for lag in 1, 2, 3, size:
        assert abs(np.corrcoef(whole[lag:], whole[:-lag])[0, 1]) < 5 / math.sqrt(whole.size)
        assert abs(np.corrcoef(whole[lag:] ** 2, whole[:-lag] ** 2)[0, 1]) < 5 / math.sqrt(whole.size)


def test_noise_is_a_function_of_its_seed_and_place():
    size = 2 * NOISE_BLOCK + 101
    whole = noise(5, np.empty(size, np.float32))
    for block, place in noise_blocks(size):
        np.testing.assert_array_equal(
            noise_block(5, block, np.empty(place.stop - place.start, np.float32)), whole[place]
        )
    for count in 1, 2, 7, 1000:
        for distribution in DISTRIBUTIONS:
            first, more = (fill(distribution, 5, 3, np.empty(n, np.float32)) for n in (count, 1001))
            np.testing.assert_array_equal(first, more[:count])
    assert (noise(6, np.empty(size, np.float32)) != whole).mean() > 0.99


@pytest.mark.slow
def test_noise_has_the_same_bits_without_numba(tmp_path):
    assert digest(missing=["numba"], NUMBA_CACHE_DIR=str(tmp_path)) == digest()


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the processors are of this kind")
def test_noise_has_the_same_bits_on_every_processor(tmp_path):
    """As compiled for other processors, those that this one can imitate; in one folder, for it may move."""
    processors = {"generic": "", "haswell": "avx2,fma", "skylake-avx512": "avx2,fma,avx512f,avx512dq,avx512vl,avx512bw"}
    host, found = llvmlite.binding.get_host_cpu_features(), {}
    for name, features in processors.items():
        parts = list(filter(None, features.split(",")))
        if all(host.get(part, False) for part in parts):
            own = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ",".join(f"+{part}" for part in parts)}
            found[name] = digest(NUMBA_CACHE_DIR=str(tmp_path), **own)
    assert set(found.values()) == {digest()}, found
