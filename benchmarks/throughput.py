"""Training throughput beside the loop that only steps the environment.

Usage: python benchmarks/throughput.py [--quick]

Both play episodes of one length in 1 and in 2 processes at once. The bare loop repeats actions of training's own
candidates, recorded beforehand, and has no policy. Training is whole generations (ask, candidates, episodes, update) of
64 candidates with an MLP 64-64 tanh. The last table is of a policy that sees pictures, of no game.
"""

from functools import partial

from loops import CART_POLE, IMAGES, RACE_CAR, bare, training_rate
from report import Report, alternate, options

TARGETS = {CART_POLE: 0.75, RACE_CAR: 0.97}
PIXELS = 2500  # steps/s to reach


def main() -> None:
    """Measure all in turn, round after round."""
    given = options(__doc__)
    report = Report("throughput", given.out)
    report.head("", "workers", "bare loop [steps/s]", "training [steps/s]", "training / bare", "target")
    results = {}
    for env_id, target in TARGETS.items():
        rate = partial(training_rate, env_id, seconds=given.seconds, population_size=given.population)
        rates = alternate(
            {
                "bare 1": partial(bare, env_id, 1, given.seconds),
                "training 1": partial(rate, workers=1),
                "bare 2": partial(bare, env_id, 2, given.seconds),
                "training 2": partial(rate, workers=2),
                "normalized 2": partial(rate, workers=2, observation_normalization=True),
            },
            given.rounds,
        )
        shares = {
            name: rates[name] / rates[f"bare {name[-1]}"] for name in ("training 1", "training 2", "normalized 2")
        }
        scaling = {name: rates[f"{name} 2"] / rates[f"{name} 1"] for name in ("bare", "training")}
        for name, label, goal in (
            ("training 1", "", ""),
            ("training 2", "", f"{target:g}"),
            ("normalized 2", ", observations normalised", "0.70" if env_id == CART_POLE else ""),
        ):
            workers = name[-1]
            report.row(
                env_id.partition(":")[2] + label,
                workers,
                f"{rates[f'bare {workers}']:,.0f}",
                f"{rates[name]:,.0f}",
                f"{shares[name]:.2f}",
                goal,
            )
        results[env_id] = {"steps_per_second": rates, "share_of_bare": shares, "two_workers_to_one": scaling}
    report.head("2 workers to 1", "bare loop", "training")
    for env_id, result in results.items():
        scaling = result["two_workers_to_one"]
        report.row(env_id.partition(":")[2], f"{scaling['bare']:.2f}", f"{scaling['training']:.2f}")
    pixels = partial(
        training_rate, IMAGES, workers=2, seconds=given.seconds, population_size=min(16, given.population),
        policy="cnn_nature", hidden_sizes="auto", max_episode_steps=2 if given.quick else 100,
    )  # fmt: skip
    rate = alternate({"cnn_nature": pixels}, given.rounds)
    report.head("four pictures of 84x84", "workers", "training [steps/s]", "target")
    report.row("cnn_nature", 2, f"{rate['cnn_nature']:,.0f}", f"{PIXELS:,}")
    results[IMAGES] = {"steps_per_second": rate}
    report.say("Target: training scales by at least 1.9 where the bare loop scales by 2.0.")
    report.save(results)


if __name__ == "__main__":
    main()
