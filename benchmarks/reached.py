"""What `es-envs train ID --seed S` reaches: the table in README.md.

Usage: python benchmarks/reached.py [--seeds 0 1 2 3 4] [ID ...]

Trains with the recommended settings, then scores the best centre on 100 starts that neither training, nor the choice of
the best centre, has seen. Prints a Markdown row for each environment and writes the runs and a JSON file.
"""

import argparse
import time
from pathlib import Path

from report import Report

import es_envs
from es_core import train


def main() -> None:
    """Train and score every environment with every seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="*", metavar="ID", default=es_envs.env_ids(), help="default: all registered")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=Path, default=Path("runs/reached"), help="folder of the runs and reached.json")
    options = parser.parse_args()

    report = Report("reached", options.out)
    report.head(
        "", "seed", "fitness on 100 unseen starts (95 % interval)", "success", "generations", "steps", "seconds"
    )
    rows = []
    for env_id in options.ids:
        for seed in options.seeds:
            started = time.perf_counter()
            run = train(env_id, run_dir=options.out / f"{env_id}-{seed}", seed=seed, progress=False)
            seconds = time.perf_counter() - started
            score, last = run.evaluate(episodes=100), run.history[-1]
            rows.append(
                {
                    "env_id": env_id,
                    "seed": seed,
                    "score": score.to_json(),
                    "solved": last.solved,
                    "generations": last.generation,
                    "steps": last.total_steps,
                    "seconds": seconds,
                }
            )
            success = "" if score.success_rate is None else f"{score.success_rate:.2f}"
            interval = f"{score.mean:.2f} ({score.interval[0]:.2f} to {score.interval[1]:.2f})"
            steps = f"{last.total_steps / 1e6:.2f} M"
            report.row(env_id, seed, interval, success, last.generation, steps, f"{seconds:.0f}")
    report.save(rows)


if __name__ == "__main__":
    main()
