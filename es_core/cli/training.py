"""The commands that train: train, resume, demo."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import es_envs
from es_core.cli.arguments import (
    TRUST_HELP,
    add_command,
    add_config_option,
    add_config_options,
    add_env_id,
    add_run_dir,
    add_size,
    add_training,
    add_trust,
    add_workers,
    config_fields,
    execution,
)
from es_core.cli.output import command_line, log, log_next, print_json, print_result
from es_core.cli.reports import print_comparison
from es_core.config.keywords import to_fields

if TYPE_CHECKING:
    from es_core.cli.parser import Parser
    from es_core.config.train_config import TrainConfig
    from es_core.reports.comparison import Comparison
    from es_core.run import Run
    from es_core.runs.checkpoint import Checkpoint
    from es_core.runs.metrics import GenerationStats
    from es_core.runs.run_folder import RunFolder

DEMO_ENV = "CartPoleBullet-v0"
_SHOWN = ("seed", "generations", "fitness", "strategy", "population_size", "sigma", "learning_rate", "policy")


def add(commands: Any) -> None:
    """Add these commands."""
    from es_core.config.given import BOUNDS
    from es_core.config.train_config import option_fields

    sub = add_command(
        commands,
        "train",
        _train,
        "evolve a policy for an environment",
        examples=(
            "CartPole-v1",
            "RaceCar-v0 --seed 1 --sigma 0.05 --policy mlp",
            "RaceCar-v0 --seeds 0..4  # five runs, and their mean",
            "CartPole-v1 --max-steps 1000000 --max-seconds 60",
        ),
    )
    add_env_id(sub, optional=True)
    sub.add_argument(
        "--config",
        metavar="FILE",
        help="read settings and environment from a run's config.json; other options override it",
    )
    sub.add_argument(
        "--seeds",
        type=_seeds,
        metavar="SEEDS",
        help="train one run per seed, 0..9 or 0,3,5, side by side; report mean, interval and interquartile mean",
    )
    add_run_dir(sub)
    add_training(sub)
    group = sub.add_argument_group("start")
    _add_continue(sub, group)
    sub.add_setting(
        group,
        "--initial",
        metavar="RUN",
        help_text="start from the policy of this run, of a checkpoint file, or of a .zip of Stable-Baselines3",
    )
    sub.add_setting(group, "--trust-names", action="store_true", help_text=TRUST_HELP)
    add_config_options(sub, shown=_SHOWN)

    sub = add_command(commands, "resume", _resume, "continue a run from its latest checkpoint")
    sub.add_argument("run", metavar="RUN", help="a run folder")
    for field in option_fields():  # of the others a run says itself that they cannot change
        help_text = f"raise the limit: {field.metadata['help']}" if field.name in BOUNDS else argparse.SUPPRESS
        add_config_option(sub, field, help_text)
    add_training(sub)
    add_trust(sub)

    sub = add_command(
        commands, "finetune", _finetune, "continue training an evolved policy by gradients, in a run of its own"
    )
    sub.add_argument("source", metavar="RUN", help="a run folder or a checkpoint file")
    sub.add_argument(
        "--algorithm",
        required=True,
        metavar="NAME",
        help="an algorithm of Stable-Baselines3 that fits the actions: ppo or a2c; sac, td3, ddpg or tqc; dqn",
    )
    sub.add_argument(
        "--steps", type=int, required=True, metavar="N", help="environment steps, those of its scores included"
    )
    add_run_dir(sub)
    _add_continue(sub, sub)
    add_training(sub)
    add_trust(sub)
    add_config_options(sub, shown=("seed", "strategy_options", "steps_per_generation"))

    sub = add_command(commands, "demo", _demo, "evolve, score and film a policy for the cart-pole", as_json=False)
    sub.add_argument(
        "--seed", type=int, default=0, metavar="S", help="root seed of all randomness (default: %(default)s)"
    )
    add_run_dir(sub)
    add_workers(sub)
    add_size(sub)


def _add_continue(sub: "Parser", group: Any) -> None:
    """Add the option for a run that may have begun."""
    sub.add_setting(
        group,
        "--continue",
        action="store_true",
        dest="continues",
        help_text="begin the run in --run-dir, continue it, or leave it if it is finished: for jobs queued again",
    )


def _seeds(text: str) -> list[int]:
    """The seeds that ``0..9`` or ``0,3,5`` stands for."""
    first, dots, last = text.partition("..")
    try:
        seeds = list(range(int(first), int(last) + 1)) if dots else [int(word) for word in text.split(",")]
    except ValueError:
        seeds = []
    if not seeds:
        raise argparse.ArgumentTypeError(f"expected FIRST..LAST or a list of numbers, 0..9 or 0,3,5, got {text!r}")
    return seeds


def _train(options: argparse.Namespace) -> None:
    env, settings = _settings(options)
    resume = _resume_if_begun(options)
    how = {
        "run_dir": options.run_dir,
        "initial": options.initial,
        **execution(options),
        **settings,
    }
    if options.seeds is not None:  # which continues what is in its folder anyway
        from es_core.tuning.multi_seed import train_seeds

        _report_seeds(train_seeds(env, options.seeds, trust=options.trust_names, **how), options)
        return
    from es_core.processes.forker import started_early

    if options.initial is not None and options.trust_names:
        from es_core.run import Run
        from es_core.runs.run_folder import is_begun

        if options.continues and isinstance(env, str) and is_begun(options.run_dir):
            begun = Run.open(options.run_dir, trust=True)  # it may have names from the initial policy
            _run(begun.resume, options, env_id=env, **execution(options), **settings)
            return
        how["initial"] = _trusted(options.initial)
    with started_early(wanted=options.pool == "local"):  # it loads while this process imports the rest
        from es_core.run import train

        _run(train, options, env, **resume, **how)


def _trusted(path: str) -> "str | Checkpoint":
    """A policy to start from, for whose names the user vouches."""
    from es_core.evaluation.scoring import find_checkpoint

    return path if path.lower().endswith(".zip") else find_checkpoint(path, trust=True)


def _settings(options: argparse.Namespace) -> "tuple[str | TrainConfig, dict[str, Any]]":
    """The environment's id and the settings that were given, or the whole config that they make with a file's."""
    given = config_fields(options)
    if options.config is None:
        if options.env_id is None:
            options.parser.error("an ID is required: an environment's, or --config FILE of a run")
        return options.env_id, given
    from es_core.config.train_config import TrainConfig
    from es_core.config.trust import require_trusted

    config = TrainConfig.load(options.config)
    if set(given) - {"seed"}:  # what the run chose suits its own settings
        config = config.reopened()
    if "generations" in given and config.schedule_generations == config.generations:  # it follows from them
        config = replace(config, schedule_generations=None)
    if options.env_id not in {None, config.env_id}:
        raise ValueError(f"{options.config} is for {config.env_id}, not for {options.env_id}: leave out one of the two")
    given = to_fields(given)
    config = replace(config, **given, decided=tuple(name for name in config.decided if name not in given))
    require_trusted(config, trust=options.trust_names, vouched={*given}, where=options.config)
    return config, {}


def _report_seeds(comparison: "Comparison", options: argparse.Namespace) -> None:
    from es_core.formatting import shell_line

    runs = [run for group in comparison.groups for run in group.runs]
    if options.json:
        print_json(comparison.to_json())
        return
    print_comparison(comparison)
    if stopped := sum(not run.finished for run in runs):
        folder = shell_line(["--run-dir", str(runs[0].directory.parent)])
        log(f"{stopped} of {len(runs)} runs are not at their end: the same command with {folder} continues.")
    scored = [(run.best_score[1].mean, run) for run in runs if run.best_score is not None]
    best = max(scored, key=itemgetter(0))[1] if scored else runs[0]
    log_next(command_line("compare", runs[0].directory.parent), _command("record", best))


def _resume(options: argparse.Namespace) -> None:
    from es_core.run import Run

    run = Run.open(options.run, trust=options.trust_names)
    _run(run.resume, options, **execution(options), **config_fields(options))


def _finetune(options: argparse.Namespace) -> None:
    from es_core.run import finetune

    _run(
        finetune,
        options,
        options.source,
        algorithm=options.algorithm,
        steps=options.steps,
        trust=options.trust_names,
        run_dir=options.run_dir,
        **_resume_if_begun(options),
        **execution(options),
        **config_fields(options),
    )


def _demo(options: argparse.Namespace) -> None:
    from es_core.run import train

    if DEMO_ENV not in es_envs.env_ids():
        found = (
            "; ".join(f"plugin {p.name}: {p.error}" for p in es_envs.plugins() if p.error)
            or "its plugin is not installed"
        )
        raise RuntimeError(f"the demo needs {DEMO_ENV}: {found}")
    log(f"Evolving a policy for {DEMO_ENV}: {es_envs.definition(DEMO_ENV).summary}")
    run = train(
        DEMO_ENV, run_dir=options.run_dir, workers=options.workers, seed=options.seed, progress=not options.quiet
    )
    log("Scoring it on 100 unseen starts")
    print_result(
        f"fitness {run.evaluate(workers=options.workers, progress=not options.quiet)}; the best possible is 500"
    )
    path = run.directory / "videos" / f"{DEMO_ENV}.mp4"
    log("Filming the first of those episodes")
    size = {name: getattr(options, name) for name in ("width", "height", "aspect")}
    run.record(path, **size, workers=options.workers, progress=not options.quiet)
    print_result(f"film: {path}")
    log_next(f"{command_line('train', 'RaceCar-v0')}  # a few minutes", command_line("list"), command_line("--help"))


def _resume_if_begun(options: argparse.Namespace) -> dict[str, Any]:
    """Return whether a run may have begun, for ``train``."""
    if options.continues and options.run_dir is None:
        options.parser.error("--continue needs --run-dir DIR, the folder of the run to begin or continue")
    return {"resume": "if begun" if options.continues else False}


def _run(train: "Callable[..., Run]", options: argparse.Namespace, *source: Any, **how: Any) -> None:
    """Call a function that trains, and report the run that it returns."""
    played: list[GenerationStats] = []
    run = train(*source, on_generation=played.append, **how)
    if not played and run.end is not None:
        log(f"nothing to do in {run.directory}")
    _report_run(run, options)


def _report_run(run: "Run", options: argparse.Namespace) -> None:
    from es_core.config.strategy_defaults import keeps_repertoire
    from es_core.formatting import figures
    from es_core.training.advice import advice

    last = run.history[-1] if run.history else None
    best = run.best_score
    if options.json:
        summary = {
            "directory": str(run.directory),
            "generation": last.generation if last else None,
            "solved": bool(last and last.solved),
            "end": run.end,
            "advice": advice(run.history, restarts=run.config.restarts),
            "total_steps": last.total_steps if last else 0,
            "best": {"generation": best[0], **best[1].to_json()} if best else None,
        }
        print_json(summary)
        return
    print_result(run.directory)
    if last is not None:
        at_the_end = last.total_steps - last.search_steps
        training = last.total_steps - sum(stats.evaluation_steps for stats in run.history)
        steps = f"{figures(training)} in training, {figures(last.search_steps - training)} to choose centres"
        more = f", {figures(at_the_end)} for the scores at the end" if at_the_end else ""
        log(f"{_ending(run)}; environment steps: {steps}{more}")
    if sentence := advice(run.history, restarts=run.config.restarts):
        log(f"advice: {sentence}")
    if best is not None:
        unseen = " from starts that no decision has seen" if last is not None and last.verdict else ""
        log(f"best centre, of generation {best[0]}: fitness {best[1]}{unseen}")
    verbs = ("evaluate", "record", "report") if run.end is not None else ("resume", "evaluate", "record", "report")
    gallery = [_command("record", run, gallery="4x4")] if keeps_repertoire(run.config.strategy) else []
    log_next(*(_command(verb, run) for verb in verbs), *gallery)


def _command(verb: str, run: "RunFolder", **options: str) -> str:
    """A command about a run that this one has trained, and so trusts."""
    from es_core.config.commands import run_command

    return run_command(verb, run.config, run.directory, trusted=True, **options)


def _ending(run: "Run") -> str:
    """Return how far the run has come, and why it ended there if it has."""
    from es_core.training.rules.plateau import PLATEAU

    last = run.history[-1].generation
    if run.end == "solved":
        return f"solved in generation {last}"
    if run.end is None:
        return f"stopped after generation {last}"
    if run.end == "plateau":
        return f"stopped after generation {last}, at a plateau: nothing was gained in {PLATEAU} generations"
    bound, flag = f"{run.end}={getattr(run.config, run.end)}", f"--{run.end.replace('_', '-')}"
    return f"stopped after generation {last}, since {bound} is reached ({flag} of `es-envs resume` allows more)"
