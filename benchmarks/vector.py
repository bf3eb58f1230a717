"""The vector pool beside the local one: the same policy and population, on this machine's usable cores.

Usage: python benchmarks/vector.py [--quick]

Environment steps per second of whole generations: CartPole-v1 through Gymnasium's CartPoleVectorEnv (1024 candidates,
with as many copies and with 256), and, if EnvPool and MuJoCo are installed, HalfCheetah through EnvPool beside
Gymnasium's own, which the local pool plays. With a CUDA device the vector pool is measured on it, too.
"""

from functools import partial
from importlib.util import find_spec
from typing import Any

from loops import training_rate
from report import Report, alternate, options

from es_core.policies.engines import has_cuda

TASKS: dict[str, dict[str, dict[str, Any]]] = {
    "CartPole-v1, MLP 64-64": {
        "local": {"env_id": "CartPole-v1"},
        "vector, a copy each": {"env_id": "CartPole-v1", "pool": "vector"},
        "vector, 256 copies": {"env_id": "CartPole-v1", "pool": "vector", "vector_envs": 256},
    }
}
ENVPOOL: dict[str, dict[str, dict[str, Any]]] = {
    "HalfCheetah-v4, MLP 64-64": {
        "local": {"env_id": "HalfCheetah-v4"},
        "vector, a copy each": {"env_id": "envpool/HalfCheetah-v4", "pool": "vector"},
        "vector, 256 copies": {"env_id": "envpool/HalfCheetah-v4", "pool": "vector", "vector_envs": 256},
    }
}


def main() -> None:
    """Measure all contenders for each task in turn, round after round."""
    given = options(__doc__, seconds=3.0, rounds=3)
    report = Report("vector", given.out, packages=["torch", "envpool", "mujoco"])
    cuda, has_envpool = has_cuda(), bool(find_spec("envpool") and find_spec("mujoco"))
    columns = [*TASKS["CartPole-v1, MLP 64-64"], *(["vector on CUDA"] if cuda else [])]
    report.head("task", "candidates", *(f"{name} [steps/s]" for name in columns))
    results: dict[str, Any] = {}
    for name, contenders in (TASKS | (ENVPOOL if has_envpool and not given.quick else {})).items():
        on_cuda = {"vector on CUDA": {**contenders["vector, a copy each"], "device": "cuda"}} if cuda else {}
        candidates = 8 if given.quick else 1024
        rates = alternate(
            {
                contender: partial(
                    training_rate, workers=None, seconds=given.seconds, population_size=candidates, **how
                )
                for contender, how in {**contenders, **on_cuda}.items()
            },
            given.rounds,
        )
        report.row(name, candidates, *(f"{measured:,.0f}" for measured in rates.values()))
        results[name] = rates
    if not has_envpool:
        report.say("EnvPool or MuJoCo is not installed here: its row is missing.")
    report.save(results)


if __name__ == "__main__":
    main()
