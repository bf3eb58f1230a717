"""From evolution to gradients: what fine-tuning an evolved policy gains. The page docs/results/finetuning.md.

Usage: python benchmarks/finetuning.py [--only NAME ...] [--seeds N ...] [--workers N]
       python benchmarks/finetuning.py --page       only write the page, from what is there
       python benchmarks/finetuning.py --quick      only try it out, with a single row

A policy evolves for so many steps. Then gradients go on with its last centre, and so does evolution, with the same
number of further steps, those of evaluation included. Each policy is scored on 100 unseen starts; on
RaceTrack-v0 they are on tracks of the test split, unseen in training. Each seed of a row writes
docs/results/finetuning/NAME-sSEED.json; those that are there are left out.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from report import PAGES, QUICK, RUNS, Report, Target, arguments, commit, in_words, page_options, table, write_page

from es_core import Checkpoint, Run, finetune, train
from es_core.evaluation.scoring import find_policy
from es_core.formatting import figures, percent
from es_core.pools.local import LocalPool
from es_core.pools.options import PoolOptions
from es_core.seeding import Purpose, episode_seeds

EPISODES = 2 if QUICK else 100
SCORES = {"eval_episodes": EPISODES // 10 or 1, "confirm_episodes": EPISODES // 5 or 1, "solved_at": None}

ROWS: Mapping[str, Mapping[str, Any]] = {
    "RaceTrack-v0": {
        "evolved": 90_000,
        "more": 80_000,
        "ppo": {"strategy_options": {"n_envs": 8, "n_steps": 256, "batch_size": 256}},
        "test": {"split": "test"},
    },
    "BalancingPlate-v0": {
        "settings": {"policy": "mlp", "hidden_sizes": (8,)},
        "evolved": 150_000,
        "more": 80_000,
        "ppo": {  # whose episodes are long
            "steps_per_generation": 8192,
            "strategy_options": {"n_envs": 2, "n_steps": 1024, "batch_size": 256},
        },
    },
}
if QUICK:
    ROWS = {
        "RaceTrack-v0": {
            "settings": {"population_size": 4, "episodes_per_candidate": 1, "max_episode_steps": 20},
            "evolved": 100,
            "more": 100,
            "ppo": {"strategy_options": {"n_envs": 2, "n_steps": 16, "batch_size": 16}},
            "test": {"split": "test"},
        }
    }
POLICIES = ("evolved", "gradients: last", "gradients: best", "evolution: last")


def main() -> None:
    """Run what is missing, then write the page."""
    parser = arguments(__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=[*ROWS], metavar="NAME", default=[*ROWS], help="of the rows only these"
    )
    parser.add_argument("--seeds", nargs="+", type=int, metavar="N", default=[0] if QUICK else [0, 1, 2])
    default = 1 if QUICK else None
    parser.add_argument(
        "--workers", type=int, default=default, metavar="N", help="of a run (default: the usable cores)"
    )
    parser.add_argument("--page", action="store_true", help="run nothing")
    options = page_options(parser)
    if not options.page:
        report = Report("finetuning", packages=("stable-baselines3", "torch"))
        for seed in options.seeds:
            for name in options.only:
                _run(name, seed, options.workers, report)
    _write_page()


def _file_name(name: str, seed: int) -> str:
    return f"{name}-s{seed}"


def _run(name: str, seed: int, workers: int | None, report: Report) -> None:
    file = PAGES / "finetuning" / f"{_file_name(name, seed)}.json"
    if file.exists():
        return
    row, folder = ROWS[name], RUNS / "finetuning" / _file_name(name, seed)
    how: dict[str, Any] = {"workers": workers, "progress": False}
    bound, settings = row["evolved"] + row["more"], {**SCORES, **row.get("settings", {})}
    if (folder / "evolution" / "config.json").exists():
        evolution = Run.open(folder / "evolution")
    else:
        evolution = train(
            name,
            run_dir=folder / "evolution",
            seed=seed,
            max_steps=bound,
            on_generation=lambda stats: stats.total_steps < row["evolved"],
            **settings,
            **how,
        )
    source = evolution.checkpoint
    if source is None:
        raise FileNotFoundError(f"{evolution.directory} has no checkpoint")
    steps, seconds = {"evolved": evolution.history[-1].total_steps}, {"evolved": _seconds(evolution)}
    policies = {"evolved": source}
    gradients = finetune(
        source,
        algorithm="ppo",
        steps=row["more"],
        run_dir=folder / "gradients",
        **row["ppo"],
        **SCORES,
        **how,
    )
    policies |= {"gradients: last": gradients.checkpoint, "gradients: best": gradients.best}
    steps["gradients"], seconds["gradients"] = gradients.history[-1].total_steps, _seconds(gradients)
    evolution = evolution.resume(max_steps=bound, **how)
    policies["evolution: last"] = evolution.checkpoint
    steps["evolution"] = evolution.history[-1].total_steps - steps["evolved"]
    seconds["evolution"] = _seconds(evolution) - seconds["evolved"]
    found = {
        "name": name,
        "seed": seed,
        "machine": report.machine,
        "commit": commit(),
        "steps": steps,
        "seconds": seconds,
        "config": gradients.config.to_json(),
        "scores": {
            policy: _scored(checkpoint, workers, row.get("test", {}))
            for policy, checkpoint in policies.items()
            if checkpoint is not None
        },
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{json.dumps(found)}\n", encoding="utf-8")
    report.say(f"{name}, seed {seed}: {found['scores']}")


def _seconds(run: Run) -> float:
    return sum(stats.seconds for stats in run.history)


def _scored(policy: Checkpoint, workers: int | None, env_kwargs: Mapping[str, Any]) -> dict[str, float | None]:
    """Mean fitness, share of success and mean lap time [s], on the same starts for all policies."""
    checkpoint, definition = find_policy(policy, generation=None, env_kwargs=env_kwargs, trust=True)
    with LocalPool(definition, checkpoint.config, PoolOptions(workers=workers), most=EPISODES) as pool:
        played = pool.rollouts(checkpoint.mean, checkpoint.statistics, episode_seeds(0, Purpose.TEST, EPISODES))
    done = [episode for episode in played if episode.is_success]
    laps = [float(episode.final_info["time"]) for episode in done if "time" in episode.final_info]
    return {
        "fitness": float(np.mean([episode.fitness for episode in played])),
        "success": None if played[0].is_success is None else len(done) / len(played),
        "lap_time": float(np.mean(laps)) if laps else None,
    }


def _write_page() -> None:
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((PAGES / "finetuning").glob("*.json"))]
    if not found:
        return
    rows = [
        [
            *([each["name"], str(each["seed"])] if policy == POLICIES[0] else ["", ""]),
            policy,
            figures(score["fitness"]),
            "" if score["success"] is None else percent(score["success"]),
            "" if score["lap_time"] is None else f"{score['lap_time']:.2f}",
            f"{each['steps'][kind]:,}",
            f"{each['seconds'][kind]:.0f}",
        ]
        for each in sorted(found, key=lambda each: ([*ROWS].index(each["name"]), each["seed"]))
        for policy in POLICIES
        if (kind := policy.partition(":")[0]) and (score := each["scores"].get(policy))
        if policy != "gradients: best" or score != each["scores"]["gradients: last"]
    ]
    columns = ["row", "seed", "policy", "fitness", "success", "lap [s]", "steps", "seconds"]
    machines = sorted({in_words(each["machine"]) for each in found})
    commits = sorted({each["commit"] for each in found})
    target = Target("an evolved policy's score after further steps of PPO with that after as many of evolution")
    text = f"""\
Does it pay to continue from an evolved policy by gradients? A policy evolves for so many steps (*evolved*: its last
centre). Then PPO continues from it, and so does evolution, for as many further steps, those of evaluation included.
Each policy plays the same {EPISODES} unseen starts, on RaceTrack-v0 on tracks of the test split, unseen in training.
*Last* is the final actor, or centre; *best*, where it is another one, the policy that the run itself found to be best,
on other starts. Steps and seconds are those of the row's own training. Lap times are means over finished laps, so one
that finishes more tracks also has the harder ones among them. Evolution maximises the fitness: progress on
RaceTrack-v0, and steps on the plate. PPO maximises the discounted reward, which on RaceTrack-v0 also pays the time that
is left when a lap is finished, so that lap times of the two are no contest.

{target}

{table(columns, rows)}

Command: `python benchmarks/finetuning.py`; machine: {"; ".join(machines)};
commits {", ".join(commits)}. Two rows ran side by side, each in one process (`--workers 1`).
"""
    write_page("finetuning", "Fine-tuning an evolved policy by gradients", target, text)


if __name__ == "__main__":
    main()
