"""The commands about evolved policies: evaluate, record, export, collect, watch, replay."""

import argparse
import faulthandler
import json
import shlex
import traceback
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import es_envs
from es_core.cli.arguments import (
    add_cell,
    add_command,
    add_generation,
    add_json,
    add_policy,
    add_seed,
    add_source,
    add_trust,
    add_workers,
    chosen_episodes,
)
from es_core.cli.films import add_film, film_options, make_film, scores
from es_core.cli.output import command_line, log, log_next, print_json, print_result, print_table

if TYPE_CHECKING:
    from es_envs import Episode


def add(commands: Any) -> None:
    """Add these commands."""
    sub = add_command(
        commands,
        "evaluate",
        _evaluate,
        "score a policy on starts that its training never saw",
        examples=(
            "runs/ID/RUN",
            "runs/ID/RUN --episodes 1000 --fitness distance",
            "runs/ID/RUN --cell 3,7  # of a repertoire",
            "RaceCar-v0 --policy random  # a baseline",
        ),
    )
    add_policy(sub, episodes=100)
    add_workers(sub)
    sub.add_argument(
        "--fitness",
        metavar="NAME",
        help="score by this fitness (`es-envs show ID` lists them; default: the one that the run has)",
    )
    sub.add_argument(
        "--robustness",
        nargs="?",
        const="robustness.html",
        metavar="PAGE.html",
        help="score it where the ranges of randomize are 0, 0.5, 1 and 1.5 times as wide, one by one and together, and "
        "write a page with charts (default: %(const)s)",
    )
    add_json(sub, "--randomize", "ranges other than in training, such as friction=[0.6,1.4]")

    sub = add_command(
        commands,
        "record",
        _record,
        "film a policy, or its evolution",
        examples=(
            "runs/ID/RUN racecar.mp4",
            "runs/ID/RUN --evolution --grid",
            "runs/ID/RUN --generation 4 --ghosts  # all candidates",
            "runs/ID/RUN gallery.mp4 --gallery 4x4  # of a repertoire",
            "BalancingPlate-v0 --pretrained",
        ),
    )
    add_policy(sub, episodes=1)
    add_film(sub)
    add_workers(sub)

    sub = add_command(
        commands,
        "adapt",
        _adapt,
        "find the policy of a repertoire that works best in a changed environment, in a few trials",
        examples=("""runs/ID/RUN --env-kwargs 'faults={"locked":["FR_upper_joint"]}'""",),
    )
    sub.add_argument("source", metavar="RUN", help="a run folder or a checkpoint file, with a repertoire")
    add_json(sub, "--env-kwargs", "keyword arguments of the environment that are others than in training")
    sub.add_argument("--trials", type=int, default=20, metavar="N", help="trials at most (default: %(default)s)")
    sub.add_argument("--episodes", type=int, default=5, metavar="N", help="episodes of a trial (default: %(default)s)")
    add_seed(sub)
    sub.add_argument("--generation", type=int, metavar="G", help="repertoire of this generation (default: the latest)")
    add_workers(sub)
    add_trust(sub)

    sub = add_command(commands, "export", _export, "write a policy as an ONNX file for other programs")
    add_source(sub)
    sub.add_argument("path", metavar="POLICY.onnx", help="the file")
    add_generation(sub)
    add_cell(sub)
    sub.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="S",
        help="seed of the episodes that compare file and policy (default: %(default)s)",
    )
    add_trust(sub)

    sub = add_command(commands, "collect", _collect, "write episodes of a policy as a Minari dataset, to learn from")
    add_source(sub)
    sub.add_argument("folder", metavar="FOLDER", help="folder of datasets, in which a new one is made")
    sub.add_argument(
        "--episodes", type=int, default=100, metavar="N", help="episodes of each policy (default: %(default)s)"
    )
    add_seed(sub)
    add_generation(sub)
    sub.add_argument("--population", action="store_true", help="all candidates around that centre, instead of it")
    sub.add_argument("--dataset-id", metavar="NAME-v0", help="name of the dataset (default: environment, generation)")
    add_json(sub, "--env-kwargs", "keyword arguments of the environment that are others than in training")
    add_trust(sub)

    sub = add_command(commands, "watch", _watch, "show a policy live in a window (H: what its keys do)")
    add_policy(sub, episodes=None)
    sub.add_argument(
        "--live",
        action="store_true",
        help="follow a run that is training: each episode takes the best policy so far; waits for the first",
    )

    sub = add_command(
        commands,
        "replay",
        _replay,
        "replay an episode that failed in training, with a traceback; exit code 1 if it fails again",
    )
    sub.add_argument("run", metavar="RUN", help="a run folder")
    sub.add_argument("--generation", type=int, required=True, metavar="G", help="its generation")
    sub.add_argument(
        "--candidate", type=int, metavar="C", help="the candidate's index (default: the centre, as it is evaluated)"
    )
    sub.add_argument("--seed", type=int, required=True, metavar="S", help="the episode's seed")
    add_trust(sub)


def _policy(options: argparse.Namespace) -> Any:
    """The run, checkpoint or environment that ``add_source`` lets you name."""
    script = getattr(options, "script", None)
    if options.pretrained and script is not None:
        raise ValueError("--pretrained and --policy name two policies: give one of them")
    flag = "--pretrained" if options.pretrained else "--policy" if script is not None else None
    if flag is not None and (Path(options.source) / "config.json").is_file():
        raise ValueError(f"{options.source} is a run, but {flag} plays a policy of an environment: give its ID")
    if options.pretrained:
        from es_core.runs.checkpoint import Checkpoint

        return Checkpoint.pretrained(options.source)
    if script is not None:
        from es_core.runs.checkpoint import Checkpoint

        return Checkpoint.scripted(options.source, script, env_kwargs=options.env_kwargs)
    if not Path(options.source).exists():
        if options.source in es_envs.env_ids():
            shipped = es_envs.definition(options.source).pretrained
            hint = " (for its pretrained policy, add --pretrained)" if shipped else ""
            raise ValueError(f"{options.source} is an environment: give a run of it, or a checkpoint file{hint}")
        raise FileNotFoundError(
            f"there is no run folder or checkpoint {options.source}; training prints its run folder, by default in "
            "runs/"
        )
    return _source(options.source, options)


def _source(path: str, options: argparse.Namespace) -> Any:
    """Return the run or checkpoint at ``path``, and print a message if the generation must be rebuilt first."""
    from es_core.run import Run

    if options.generation is None or not Path(path).is_dir():
        return path
    run = Run.open(path, trust=options.trust_names)
    if options.generation not in run.checkpoint_generations() and 0 <= options.generation <= len(run.history):
        log(f"generation {options.generation} has no checkpoint: it is rebuilt from the log in metrics.jsonl")
    return run


def _evaluate(options: argparse.Namespace) -> None:
    from es_core.evaluation.scoring import evaluate
    from es_core.formatting import figures

    how = {"workers": options.workers, "fitness": options.fitness, "progress": not options.quiet}
    how |= chosen_episodes(options)
    if options.robustness is not None:
        _robustness(options, how)
        return
    if options.randomize is not None:
        how["env_kwargs"] = {**(how["env_kwargs"] or {}), "randomize": options.randomize}
    score = evaluate(_policy(options), **how)
    if options.json:
        print_json(score.to_json())
    else:
        print_result(f"fitness {score}")
        if len(score.fitnesses) > 1:
            print_result("by name: " + ", ".join(f"{name} {figures(value)}" for name, value in score.fitnesses.items()))


def _robustness(options: argparse.Namespace, how: dict[str, Any]) -> None:
    from es_core.formatting import figures
    from es_core.reports.pages import require_page
    from es_core.reports.robustness_page import STRETCHES, robustness

    page = require_page(options.robustness)
    found = robustness(_policy(options), randomize=options.randomize, **how)
    if options.json:
        found.save(page)
        print_json({**found.to_json(), "path": str(page)})
        return
    heads = [f"{stretch:g} times" for stretch in STRETCHES]
    rows = [
        [
            name,
            str(found.ranges.get(name, "")),
            str(found.widest.get(name, "")),
            *(figures(score.mean, score.interval) for score in scores),
        ]
        for name, scores in found.scores.items()
    ]
    print_table([["what varies", "range", "widest", *heads], *rows], headed=True)
    found.save(page)
    log(f"page: {page}")


def _collect(options: argparse.Namespace) -> None:
    from es_core.deployment.collecting import collect
    from es_core.formatting import counted

    names = ("episodes", "seed", "generation", "population", "dataset_id", "env_kwargs")
    dataset = collect(
        _policy(options),
        options.folder,
        trust=options.trust_names,
        progress=not options.quiet,
        **{name: getattr(options, name) for name in names},
    )
    if options.json:
        print_json({**asdict(dataset), "path": str(dataset.path)})
        return
    episodes = counted(dataset.episodes, "episode")
    log(f"{episodes}, {dataset.steps} steps, mean fitness {dataset.mean_fitness:.4g}")
    load = f'import minari; minari.load_dataset("{dataset.dataset_id}")'
    folder = shlex.quote(str(Path(options.folder).resolve()))
    log_next(f"MINARI_DATASETS_PATH={folder} {shlex.join(['python', '-c', load])}")
    print_result(dataset.path)


def _record(options: argparse.Namespace) -> None:
    from es_core.video.recording import record

    path, episodes = make_film(options, partial(record, _policy(options), **film_options(options)))
    if options.json:
        print_json({"path": str(path), "fitness": [episode.fitness for episode in episodes]})
    else:
        print_result(path)
        log(scores(path, episodes))


def _adapt(options: argparse.Namespace) -> None:
    from es_core.evaluation.adapting import adapt
    from es_core.runs.repertoire import cell_text

    if options.env_kwargs is None:
        raise ValueError("""say what has changed in the environment: --env-kwargs 'faults={"locked":["knee"]}', say""")
    names = ("env_kwargs", "trials", "episodes", "seed", "generation", "workers")
    found = adapt(
        _source(options.source, options),
        trust=options.trust_names,
        progress=not options.quiet,
        **{name: getattr(options, name) for name in names},
    )
    if options.json:
        print_json(found.to_json())
        return
    print_table(found.table(), headed=True)
    print_result(found)
    changed = ["--env-kwargs", json.dumps(options.env_kwargs, separators=(",", ":"))]
    chosen = ["--cell", cell_text(found.cell)]
    trust = ["--trust-names"] if options.trust_names else []
    log_next(
        command_line("evaluate", options.source, *chosen, *changed, *trust),
        command_line("record", options.source, "adapted.mp4", *chosen, *changed, *trust),
        command_line("export", options.source, "adapted.onnx", *chosen, *trust),
    )


def _export(options: argparse.Namespace) -> None:
    from es_core.deployment.exporting import export

    exported = export(
        _policy(options),
        options.path,
        generation=options.generation,
        cell=options.cell,
        seed=options.seed,
        trust=options.trust_names,
    )
    if options.json:
        print_json(asdict(exported))
        return
    print_result(exported.path)
    agreement = f"actions that differ by at most {exported.largest_difference:.1g}"
    if exported.largest_difference == 0:
        agreement = "the same actions"
    tied = f", except for {exported.near_ties} near ties" if exported.near_ties else ""
    log(f"the policy and its file take {agreement} for {exported.observations} observations{tied}")


def _watch(options: argparse.Namespace) -> None:
    from es_core.video.watching import watch

    def show(episode: "Episode", generation: int) -> None:
        if not options.json:
            line = f"generation {generation}: fitness {episode.fitness:z.2f} in {episode.length} steps"
            print_result(line)

    how = {"live": options.live, "on_episode": show, "progress": not options.quiet, **chosen_episodes(options)}
    episodes = watch(_policy(options), **how)
    if options.json:
        print_json([{"seed": e.seed, "fitness": e.fitness, "length": e.length} for e in episodes])


def _replay(options: argparse.Namespace) -> None:
    from es_core.evaluation.replaying import replay
    from es_core.rollout.errors import RolloutError

    faulthandler.enable(file=2)  # a simulator that crashes takes this process with it
    given = {name: getattr(options, name) for name in ("generation", "candidate", "seed")}
    try:
        episode = replay(_source(options.run, options), trust=options.trust_names, **given)
    except RolloutError as error:
        traceback.print_exception(error.__cause__)
        if options.json:
            print_json({"reproduced": True, "kind": type(error.__cause__).__name__, "message": str(error.__cause__)})
        raise
    except KeyboardInterrupt:
        traceback.print_exc()  # where it hangs
        raise
    if options.json:
        print_json({"reproduced": False, "fitness": episode.fitness, "length": episode.length})
    else:
        print_result(
            f"not reproduced: the episode ended after {episode.length} steps with fitness {episode.fitness:z.2f}"
        )
        log(
            "either it never failed (failed_candidates in metrics.jsonl names the seeds of those that did), or its "
            "failure depends on more than the seed: earlier episodes in the same process, a file, the time"
        )
