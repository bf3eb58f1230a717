"""Training throughput beside EvoTorch's, a plain script's, and the loop that only steps the environment.

Usage: python benchmarks/rivals.py [--quick]
       pip install evotorch==0.6.1 "ray>=2"   before, to have EvoTorch measured; it needs no other preparation

All do the same work on the same environment classes with two processes at once: whole generations of 64 candidates with
an MLP 64-64 tanh, no normalisation of observations, episodes of one length, Adam on centred ranks. Each is measured
from the end of its first generation, by the wall clock. plain_script.py and evotorch_script.py say how the rivals are
set up. EvoTorch's PGPE also adapts a sigma for each parameter, which costs it next to nothing here.
"""

import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from loops import CART_POLE, RACE_CAR, bare, trained
from report import Report, alternate, options

WORKERS = 2
TARGETS = {  # times as fast
    CART_POLE: {"EvoTorch GymNE": 8.0, "EvoTorch VecGymNE": 5.0},
    RACE_CAR: {"EvoTorch GymNE": 1.4},
}
EVOTORCH = {
    "EvoTorch GymNE": "gymne",
    "EvoTorch GymNE, distributed": "distributed",
    "EvoTorch VecGymNE": "vecgymne",
}
INSTALL = 'EvoTorch is not installed; to have it measured: pip install evotorch==0.6.1 "ray>=2"'


def ours(env_id: str, seconds: float, population: int) -> float:
    """Steps/s of `train`, with everything between its generations."""
    training = trained(env_id, workers=WORKERS, seconds=seconds, population_size=population)
    return training.steps / training.wall_seconds


def script(env_id: str, seconds: float, population: int, *, name: str, arguments: tuple[str, ...] = ()) -> float:
    """Steps/s of a rival, in a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name(name)), *arguments]
    command += [env_id, str(WORKERS), str(seconds), str(population)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    """Measure all in turn, round after round."""
    given = options(__doc__)
    report = Report("rivals", given.out, ("torch", "evotorch", "ray"))
    contenders = {"es-envs": ours, "plain script": partial(script, name="plain_script.py")}
    if find_spec("evotorch") is None:
        report.say(INSTALL)
    else:
        for label, kind in EVOTORCH.items():
            contenders[label] = partial(script, name="evotorch_script.py", arguments=(kind,))
    report.head("2 processes", "", "steps/s", "es-envs is faster by", "target", "share of the bare loop")
    results = {}
    for env_id, targets in [*TARGETS.items()][: 1 if given.quick else None]:
        measurements = {
            label: partial(measure, env_id, given.seconds, given.population) for label, measure in contenders.items()
        }
        rates = alternate({"bare loop": partial(bare, env_id, WORKERS, given.seconds), **measurements}, given.rounds)
        faster = {label: rates["es-envs"] / rate for label, rate in rates.items()}
        shares = {label: rate / rates["bare loop"] for label, rate in rates.items()}
        for label, rate in rates.items():
            report.row(
                env_id.partition(":")[2],
                label,
                f"{rate:,.0f}",
                "" if label == "es-envs" else f"{faster[label]:.2f}",
                f"{targets[label]:g}" if label in targets else "",
                f"{shares[label]:.2f}",
            )
        results[env_id] = {"steps_per_second": rates, "es_envs_is_faster_by": faster, "share_of_bare": shares}
    report.save(results)


if __name__ == "__main__":
    main()
