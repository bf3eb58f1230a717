"""ERL against its two halves, evolution alone and the learner alone: docs/results/erl.md.

Usage: python benchmarks/erl.py [--tasks ID ...] [--contenders NAME ...] [--seeds N ...]
       python benchmarks/erl.py --page       only write the page, from what is there
       python benchmarks/erl.py --quick      only try it out, with a single task

Every run has the same number of environment steps, and its final policy plays 100 unseen starts. Each writes
docs/results/erl/TASK-CONTENDER-sSEED.json; those that are there are left out, so that the suite can be taken up again
where it stopped. Runs follow each other, each on one core; their times are processor time, all processes together.

It needs what requirements-test.txt does not bring: pip install matplotlib "gymnasium[mujoco]"
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from contenders import EPISODES, Budget, score
from gymnasium.spaces import Discrete
from report import (
    PAGES,
    QUICK,
    Report,
    Target,
    arguments,
    commit,
    estimated,
    in_words,
    page_options,
    pyplot,
    table,
    write_page,
)

import es_envs
from es_core import Run, evaluate, train
from es_core.statistics import compare_unpaired, mean

TASKS = (
    {"CartPole-v1": (1100, 1)}
    if QUICK
    else {
        "CartPole-v1": (50_000, 5),
        "Pendulum-v1": (50_000, 5),
        "HalfCheetah-v5": (150_000, 3),
        "RaceTrack-v0": (150_000, 3),
    }
)
"""Steps of a run, and number of seeds."""

CURVE = (next(iter(TASKS)) if QUICK else "HalfCheetah-v5", 0)
"""Task and seed of the run of ERL that goes on to twice the steps."""

EPISODE = 100 if QUICK else 1000  # steps of an episode of that task, always
PARTS = ("its population alone", "its learner alone")
ALONE = {"gradient_steps": 0, "inject_every": 10**6}


def ours(task: str, seed: int, steps: int, **settings: Any) -> dict[str, Any]:
    """``train(task)``; the last centre."""
    how = {"seed": seed, "workers": 1, "progress": False, "solved_at": None, "eval_every": 0, **settings}
    budget = Budget(0.0)
    with tempfile.TemporaryDirectory() as folder:
        train(task, run_dir=Path(folder) / "first", generations=1, **how)  # compiles the policy
        budget.begin()
        bounds = {"max_steps": steps, "checkpoint_every": 10**6}
        run = train(task, run_dir=Path(folder) / "run", **{**bounds, **how})
        seconds, checkpoint = budget.spent, run.checkpoint
        assert checkpoint is not None
        found = {
            "config": run.config.to_json(),
            "steps": sum(stats.steps for stats in run.history),
            "seconds": seconds,
            "score": evaluate(checkpoint, episodes=EPISODES, seed=seed, workers=1).to_json(),
        }
        return found if how["eval_every"] == 0 else {**found, "curve": _continued(run)}


def erl(task: str, seed: int, steps: int) -> dict[str, Any]:
    """Evolution with a learner. One run continues for its curve, to twice the steps."""
    if (task, seed) != CURVE:
        return ours(task, seed, steps, strategy="erl")
    watched = {"eval_every": 1, "eval_episodes": 5, "eval_budget": None}  # as in the paper, and not among its steps
    return ours(task, seed, steps, strategy="erl", max_steps=None, max_episodes=steps // EPISODE, **watched)


def _continued(run: Run) -> list[tuple[int, float]]:
    """Environment steps before each generation, and the centre's score there."""
    assert run.config.max_episodes is not None
    longer = run.resume(progress=False, max_episodes=2 * run.config.max_episodes).history
    trained = accumulate((stats.steps for stats in longer), initial=0)
    return [(steps, each.evaluation.mean) for steps, each in zip(trained, longer, strict=False) if each.evaluation]


def learner(task: str, seed: int, steps: int) -> dict[str, Any]:
    """ERL's learner with the same settings, which explores by itself, as Stable-Baselines3 has it."""
    from stable_baselines3 import DQN, SAC

    env, same = es_envs.make(task), {"seed": seed, "device": "cpu", "buffer_size": 100_000, "learning_starts": 1000}
    same |= {"train_freq": 1, "gradient_steps": 1}
    if isinstance(env.action_space, Discrete):
        network: Any = {"net_arch": [64, 64]}
        model: Any = DQN(
            "MlpPolicy", env, policy_kwargs=network, learning_rate=0.001, tau=0.005, target_update_interval=1, **same
        )
    else:
        network = {"net_arch": {"pi": [64, 64], "qf": [256, 256]}}
        model = SAC("MlpPolicy", env, policy_kwargs=network, batch_size=128, **same)
    budget = Budget(0.0)
    budget.begin()
    model.learn(steps)
    seconds = budget.spent

    def begin() -> Callable[[Any], Any]:
        return lambda observation: model.predict(observation, deterministic=True)[0]

    return {"steps": model.num_timesteps, "seconds": seconds, "score": score(task, seed, begin)}


CONTENDERS: Mapping[str, Callable[[str, int, int], dict[str, Any]]] = {
    "ERL": erl,
    "its population alone": lambda *run: ours(*run, strategy="erl", strategy_options=ALONE),
    "the default strategy": ours,
    "its learner alone": learner,
}


def main() -> None:
    """Run what is missing, then write the page."""
    parser = arguments(__doc__)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, metavar="ID", default=[*TASKS], help="only these")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, metavar="NAME", default=[*CONTENDERS])
    parser.add_argument("--seeds", nargs="+", type=int, metavar="N", help="of the seeds only these")
    parser.add_argument("--out", type=Path, default=PAGES / "erl", help="folder (default: %(default)s)")
    parser.add_argument("--page", action="store_true", help="run nothing")
    options = page_options(parser)
    if not options.page:
        _run_all(options, Report("erl", packages=("torch", "stable-baselines3", "mujoco")))
    _write_page([json.loads(path.read_text(encoding="utf-8")) for path in sorted(options.out.glob("*.json"))])


def _run_all(options: argparse.Namespace, report: Report) -> None:
    torch.set_num_threads(1)
    for task in options.tasks:
        steps, seeds = TASKS[task]
        for seed in range(seeds) if options.seeds is None else options.seeds:
            for name in options.contenders:
                file = options.out / f"{task}-{name.replace(' ', '-')}-s{seed}.json"
                if file.exists():
                    continue
                head = {"contender": name, "task": task, "seed": seed, "commit": commit(), "machine": report.machine}
                found = {**head, **CONTENDERS[name](task, seed, steps)}
                file.parent.mkdir(parents=True, exist_ok=True)
                partial = file.with_suffix(".partial")
                partial.write_text(f"{json.dumps(found, indent=1, allow_nan=False)}\n", encoding="utf-8")
                partial.replace(file)
                report.say(f"{task}, {name}, seed {seed}: {found['score']['mean']:.1f} in {found['seconds']:.0f} s")


def _write_page(results: Sequence[dict[str, Any]]) -> None:
    if not results:
        return
    machines = sorted({in_words({**each["machine"], "cores": 1}) for each in results})
    commits = sorted({each["commit"] for each in results})
    parts = [_section(task, [each for each in results if each["task"] == task]) for task in TASKS]
    target = Target("scores after the same steps, and the processor time that they take")
    text = f"""\
Evolution with a learner ([ERL](../algorithms.md#evolution-with-a-learner)), evolution alone and the learner alone,
all with the same number of environment steps. "Its population alone" is ERL without gradient steps, "the default
strategy" is `train(ID)`, and "its learner alone" is the same algorithm of Stable-Baselines3 with the same settings,
which explores by itself. A score is the mean over seeds of the final policy's score on {EPISODES} starts that no run
has seen, with a 95 % interval over seeds; each seed has starts of its own. Time is processor time of a whole run, all
processes together: on one core, a run takes so long.

{target}

{chr(10).join(parts)}
{_plot(results)}
{READING}
Command: `python benchmarks/erl.py`; machine: {"; ".join(machines)}; commits {", ".join(commits)}.
"""
    write_page("erl", "ERL against its two halves, evolution and a learner", target, text)


def _section(task: str, results: Sequence[dict[str, Any]]) -> str:
    steps, seeds = TASKS[task]
    rows = []
    for name in CONTENDERS:
        runs = [each for each in results if each["contender"] == name]
        scores, times = ([each[key] for each in runs] for key in ("score", "seconds"))
        cells = [estimated([each["mean"] for each in scores]), f"{mean(times).value:,.0f}"] if runs else ["", ""]
        rows.append([name, *cells, f"{len(runs)} of {seeds}"])
    columns = ["", "score", "time [s]", "seeds measured"]
    return f"## {task}, {steps:,} steps\n\n{table(columns, rows)}\n\n{_verdict(results)}"


def _verdict(results: Sequence[dict[str, Any]]) -> str:
    """Compare ERL with the better of its two parts."""
    scores = {name: [r["score"]["mean"] for r in results if r["contender"] == name] for name in CONTENDERS}
    if not all(scores[name] for name in ("ERL", *PARTS)):
        return ""
    better = max(PARTS, key=lambda name: mean(scores[name]).value)
    found = compare_unpaired(scores[better], scores["ERL"])
    sign = "minus" if found.value < 0 else "plus"
    chance = "" if found.p is None else f" ({found.method}: p = {found.p:.2g})"
    return f"The better part is {better}. ERL: {sign} {abs(found.value):.3g}{chance}.\n"


def _plot(results: Sequence[dict[str, Any]]) -> str:
    """Draw the longer run's curve, with the others' scores; return it as Markdown."""
    task, seed = CURVE
    long = [each["curve"] for each in results if "curve" in each]
    if not long or not (plt := pyplot("erl")):
        return ""
    from matplotlib.ticker import EngFormatter

    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    axis.plot(*zip(*long[0], strict=True), label=f"ERL, seed {seed}")
    for number, name in enumerate(CONTENDERS):
        runs = [each for each in results if each["contender"] == name and each["task"] == task]
        points = [(each["steps"], each["score"]["mean"]) for each in runs]
        axis.plot(*zip(*points, strict=True), "o", color=f"C{number}", label=f"{name}, each seed")
    axis.set(title=task, xlabel="environment steps of training", ylabel="fitness")
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    figure.savefig(PAGES / "erl.svg", metadata={"Date": None})
    plt.close(figure)
    steps, score = long[0][-1]
    return f"""## {task}, {steps:,} steps

The run of ERL with seed {seed} continues. Its champion plays five starts after each generation, as in the paper, and
they are not among its steps. It ends at {score:.0f}. The paper shows its curve as a picture, of HalfCheetah-v2 and with
DDPG as the learner. Its numbers are neither in the paper nor comparable with the authors' program.

![ERL's score by environment steps, and the scores of all others after 150,000](erl.svg)
"""


READING = """## How to read this

- The last centre is scored, not the best one: evaluation, which would choose that, is off, so that all steps are
  training. ERL's centre is the champion of a generation, the actor that scored highest in one episode. On CartPole-v1
  several reach 500 from one start, and on Pendulum-v1 most swing up from an easy one, so the champion is often lucky.
  More `episodes_per_candidate`, or `run.best` with evaluation on, choose better.
- By steps, gradients decide where rewards are dense: on Pendulum-v1, HalfCheetah-v5 and RaceTrack-v0 evolution alone
  has only some ten to thirty generations in so few steps. ERL does not beat its learner there, and its population is no
  help: but hardly a loss, though it plays nine tenths of the steps, with actors of its own. On CartPole-v1 the last
  actor of DQN alone is unsteady, and the population keeps what was found.
- By time, ERL loses to evolution alone until that is stuck. A gradient step takes 7 ms (DQN's 1.5 ms): as long as 120
  steps of HalfCheetah-v5 with a small policy, or as 20 of RaceTrack-v0. The default strategy solves CartPole-v1 in a
  second. [In four minutes](defaults.md) it comes as far on HalfCheetah-v5 as ERL in twenty. On Pendulum-v1 evolution
  is stuck, and ERL's six minutes are well spent.
- On RaceTrack-v0 the score is the share of a lap that is driven on 100 unseen tracks. "The default strategy" there has
  the settings that the environment recommends: a linear policy, and 32 candidates of four episodes each.
"""


if __name__ == "__main__":
    main()
