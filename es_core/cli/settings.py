"""The commands that find out how to train: bench, tune."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from es_core.cli.arguments import (
    add_command,
    add_config_options,
    add_env_id,
    add_max_seconds,
    add_pool,
    config_fields,
    parse_search,
    pool_options,
)
from es_core.cli.output import log, log_next, print_command, print_json, print_result, print_table

_SHOWN_TRIALS = 10


def add(commands: Any) -> None:
    """Add these commands."""
    sub = add_command(
        commands,
        "bench",
        _bench,
        "measure how fast an environment is trained with 1, 2, 4, ... workers, and what a step takes its time for",
    )
    add_env_id(sub)
    sub.add_argument("--seconds", type=float, default=10.0, metavar="S", help="total time (default: %(default)s)")
    sub.add_argument("--workers", type=int, metavar="N", help="most worker processes (default: the usable cores)")
    add_config_options(sub)

    sub = add_command(
        commands,
        "tune",
        _tune,
        "search for the best settings, or continue a search",
        examples=(
            "RaceCar-v0 --trials 30",
            "CartPole-v1 --search sigma=0.01..1 --search policy='linear|mlp'",
        ),
    )
    add_env_id(sub)
    sub.add_argument(
        "--search",
        action="append",
        default=[],
        metavar="NAME=VALUES",
        help="a setting and its values: LOW..HIGH, A|B|C, or a JSON list; may be given several times (default: sigma, "
        "population_size and a few more, as the strategy has them)",
    )
    sub.add_argument("--trials", type=int, default=30, metavar="N", help="number of trials (default: %(default)s)")
    sub.add_argument("--seeds", type=int, default=2, metavar="N", help="runs per trial (default: %(default)s)")
    sub.add_argument("--dir", metavar="DIR", help="folder of the search (default: runs/tune/ID-HASH)")
    add_pool(sub)
    add_max_seconds(sub)
    add_config_options(sub)


def _bench(options: argparse.Namespace) -> None:
    from es_core.config.checks import require_seconds
    from es_core.formatting import figures, percent
    from es_core.tuning.throughput import bench

    require_seconds("seconds", options.seconds)
    if not options.quiet:
        log(f"measuring {options.env_id} for {options.seconds:g} seconds")
    result = bench(
        options.env_id,
        workers=options.workers,
        seconds=options.seconds,
        progress=not options.quiet,
        **config_fields(options),
    )
    if options.json:
        print_json({**asdict(result), "workers": result.workers})
        return
    rows = [
        (str(workers), figures(round(speed)), f"{speed / result.speeds[1]:.1f}")
        for workers, speed in result.speeds.items()
    ]
    print_table([("workers", "steps/s", "times one worker's"), *rows], headed=True)
    times = {"the environment": result.environment, "the policy": result.policy, "the rest": result.rest}
    total = sum(times.values())
    parts = ", ".join(f"{name} {value:.2f} µs ({percent(value / total)})" for name, value in times.items())
    print_result(f"\nA step takes one worker {total:.2f} µs: {parts}.")
    if result.candidates < result.population_size or result.episode_cap is not None:
        cut = "" if result.episode_cap is None else f", and of their episodes the first {result.episode_cap} steps"
        played = f"only {result.candidates} of {result.population_size} candidates{cut}"
        log(f"There was time for {played}: the rest looks larger than it is (--seconds gives more time).")
    if result.advice:
        log(result.advice)
    log(f"Recommended: --workers {result.workers}, the fewest that are nearly as fast as the fastest.")


def _searches(texts: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, values in map(parse_search, texts):
        if name in found:
            raise ValueError(f"--search {name} is given twice: one range, or one list of values, for each setting")
        found[name] = values
    return found


def _tune(options: argparse.Namespace) -> None:
    from es_core.config.commands import run_command, train_command
    from es_core.formatting import figures, percent, text_of
    from es_core.tuning.settings_search import tune

    result = tune(
        options.env_id,
        search=_searches(options.search),
        trials=options.trials,
        seeds=options.seeds,
        max_seconds=options.max_seconds,
        directory=options.dir,
        progress=not options.quiet,
        **pool_options(options),
        **config_fields(options),
    )
    command = train_command(result.run.config, result.run.directory, trusted=True)
    if options.json:
        found = {"run": str(result.run.directory), "settings": result.settings, "command": command}
        trials = [asdict(trial) for trial in result.trials]
        print_json({"directory": str(result.directory), **found, "best": asdict(result.best), "trials": trials})
        return
    complete = [trial for trial in result.trials if trial.state == "complete"]
    best = sorted(complete, key=lambda trial: trial.value, reverse=True)[:_SHOWN_TRIALS]
    reached = [trial.fitness for trial in best]
    success = ["success"] if any(trial.success_rate is not None for trial in best) else []
    rows = [
        (
            str(trial.number),
            f"{trial.solved} of {result.seeds}",
            *(["-" if trial.success_rate is None else percent(trial.success_rate)] if success else []),
            figures(trial.fitness, (min(reached), max(reached))),
            figures(round(trial.steps)),
            *map(text_of, trial.settings.values()),
        )
        for trial in best
    ]
    print_table([("trial", "solved", *success, "fitness", "steps", *result.best.settings), *rows], headed=True)
    print_result("")
    print_command(command)
    states = [trial.state for trial in result.trials]
    log(f"{len(states)} trials: " + ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states)))
    again = run_command("evaluate", result.run.config, result.run.directory, trusted=True)
    log("What the command above makes is there already.")
    log_next(again)
