"""The vector pool beside the local one: the same policy and population, on this machine's usable cores.

Usage: python benchmarks/vector.py [--quick]

Environment steps per second of whole generations: CartPole-v1 through Gymnasium's CartPoleVectorEnv, with 1024
candidates around a policy that was trained beforehand, whose episodes last, and from the beginning, where most are
short and copies wait for the longest; a large policy; and, if EnvPool and MuJoCo are installed, HalfCheetah through
EnvPool beside Gymnasium's own, which the local pool plays. With a CUDA device the vector pool is measured on it, too.
"""

from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from loops import HIDDEN, PLAIN, training_rate
from report import QUICK, Report, alternate, options

from es_core import train
from es_core.policies.engines import has_cuda

WIDTHS: dict[str, dict[str, Any]] = {
    "local": {},
    "vector, a copy each": {"pool": "vector", "device": "cpu"},
    "vector, 256 copies": {"pool": "vector", "device": "cpu", "vector_envs": 256},
}
LARGE = (512, 512)


def balancing(folder: Path, hidden_sizes: tuple[int, ...]) -> Path:
    """A policy that balances the pole."""
    settings: dict[str, Any] = {"population_size": 64, "generations": 1 if QUICK else 30, "seed": 1}
    settings |= {"device": "cpu", **PLAIN}
    return train(
        "CartPole-v1", run_dir=folder / str(hidden_sizes), hidden_sizes=hidden_sizes, progress=False, **settings
    ).best_path


def main() -> None:
    """Measure all contenders for each task in turn, round after round."""
    given = options(__doc__, seconds=3.0, rounds=3)
    report = Report("vector", given.out, packages=["torch", "envpool", "mujoco"])
    many, some = (8, 8) if given.quick else (1024, 256)
    widths = WIDTHS | ({"vector on CUDA": {"pool": "vector", "device": "cuda"}} if has_cuda() else {})
    report.head("task", "candidates", *(f"{name} [steps/s]" for name in widths))
    results: dict[str, Any] = {}

    def row(name: str, candidates: int, ids: Mapping[str, str], **fields: Any) -> None:
        measure = {
            width: partial(
                training_rate, ids.get(width, ids["vector"]), workers=None, seconds=given.seconds,
                population_size=candidates, **how, **fields,
            )
            for width, how in widths.items()
        }  # fmt: skip
        rates = results[name] = alternate(measure, given.rounds)
        report.row(name, candidates, *(f"{measured:,.0f}" for measured in rates.values()))

    cart_pole = {"vector": "CartPole-v1"}
    with TemporaryDirectory() as folder:
        for name, hidden_sizes, count in ("", HIDDEN, many), (" of two layers of 512", LARGE, some):
            initial = balancing(Path(folder), hidden_sizes)
            trained = {"initial": initial, "hidden_sizes": hidden_sizes, "sigma": 0.02, "learning_rate": 0.001}
            row(f"CartPole-v1, a policy{name} that balances", count, cart_pole, **trained)
    row("CartPole-v1, from the beginning", many, cart_pole)
    has_envpool = find_spec("envpool") and find_spec("mujoco")
    if has_envpool and not given.quick:
        both = {"local": "HalfCheetah-v4", "vector": "envpool/HalfCheetah-v4"}
        row("HalfCheetah-v4, episodes of 200 steps", some, both, max_episode_steps=200)
    elif not has_envpool:
        report.say("EnvPool or MuJoCo is not installed here: its row is missing.")
    report.save(results)


if __name__ == "__main__":
    main()
