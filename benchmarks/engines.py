"""Which engine computes which policy the fastest: training on NumPy workers, and in batches by NumPy, torch and CUDA.

Usage: python benchmarks/engines.py [--quick]

Environment steps per second of whole generations on 2 workers, in an environment without physics (376 observations, 17
actions; for convolutional networks 4 grey images of 84x84), so that the policy is most of the work: an environment that
takes its time makes all of them more alike. CUDA is among the contenders where torch sees a device.
"""

from functools import partial
from typing import Any

from loops import HUMANOID, IMAGES, training_rate
from report import Report, alternate, options

from es_core.policies.engines import has_cuda

CONTENDERS = {
    "local": {"pool": "local", "engine": "compiled"},
    "batched, numpy": {"pool": "batched", "engine": "compiled"},
    "batched, torch": {"pool": "batched", "engine": "torch"},
}
CUDA = {"batched, cuda": {"pool": "batched", "engine": "torch", "device": "cuda"}}

POLICIES: dict[str, dict[str, Any]] = {
    "MLP 64-64, 29 k": {"hidden_sizes": (64, 64)},
    "MLP 256-256, 167 k": {"hidden_sizes": (256, 256)},
    "MLP 1120-1120, 1.7 M": {"hidden_sizes": (1120, 1120)},
    "LSTM 64, 114 k": {"policy": "lstm", "hidden_sizes": (64,)},
    "cnn_nature, 1.7 M": {"policy": "cnn_nature"},
}
STEPS = {"cnn_nature, 1.7 M": 10, "MLP 1120-1120, 1.7 M": 30}  # of an episode, where 200 would take too long


def main() -> None:
    """Measure all contenders for each policy and population in turn, round after round."""
    given = options(__doc__, seconds=1.0)
    report = Report("engines", given.out, packages=["torch"])
    cuda = has_cuda()
    contenders = CONTENDERS | (CUDA if cuda else {})
    report.head("policy", "candidates", *(f"{name} [steps/s]" for name in contenders), "the fastest")
    policies = dict(list(POLICIES.items())[:1]) if given.quick else POLICIES
    results: dict[str, Any] = {}
    for name, policy in policies.items():
        env_id = IMAGES if "cnn" in name else HUMANOID
        for candidates in (4,) if given.quick else (16, 128):
            rate = partial(
                training_rate,
                env_id,
                workers=2,
                seconds=given.seconds,
                population_size=candidates,
                max_episode_steps=STEPS.get(name, 200),
                **policy,
            )
            rates = alternate({contender: partial(rate, **how) for contender, how in contenders.items()}, given.rounds)
            fastest = max(rates, key=lambda contender: rates[contender].median)
            report.row(name, candidates, *(f"{measured:,.0f}" for measured in rates.values()), fastest)
            results[f"{name}, {candidates} candidates"] = rates
    if not cuda:
        report.say("No CUDA device here: those rows are missing.")
    report.save(results)


if __name__ == "__main__":
    main()
