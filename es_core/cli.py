"""The command line ``es-envs``: results on stdout, everything else on stderr; exit codes 0, 1 (failed), 2 (usage).

Ctrl-C and SIGTERM end a command in order, with exit codes 130 and 143.
"""

import argparse
import contextlib
import faulthandler
import inspect
import json
import math
import os
import shlex
import signal
import sys
import threading
import traceback
import types
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import es_envs

if typing.TYPE_CHECKING:
    from es_core.run import Run

DEMO_ENV = "CartPoleBullet-v0"
_SHOWN_TRIALS = 10

_POOL_HELP = (
    "who computes the policy: each worker its own candidates (local, the default), or the main process for all workers "
    "at once, on a GPU with --device cuda (batched)"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    with _signals_raised(), warnings.catch_warnings():
        warnings.showwarning = _show_warning
        return _exit_code(arguments)


class _Terminated(KeyboardInterrupt):
    """SIGTERM: what ends in order upon Ctrl-C does so upon this, too."""


@contextlib.contextmanager
def _signals_raised() -> Iterator[None]:
    """Raise the first SIGINT or SIGTERM as an exception; a second one ends the process at once, as a crash would.

    What is ignored stays ignored (in the background of a script, say), and afterwards all is as it was.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # no other thread may handle signals
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ours = [number for number, handler in before.items() if handler not in {signal.SIG_IGN, None}]

    def interrupt(number: int, _: object) -> None:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)
        raise _Terminated if number == signal.SIGTERM else KeyboardInterrupt

    for each in ours:
        signal.signal(each, interrupt)
    try:
        yield
    finally:
        for each in ours:
            signal.signal(each, before[each])


def _exit_code(arguments: Sequence[str] | None) -> int:
    try:
        options = _parser().parse_args(arguments)
        code: int = options.command(options) or 0
        sys.stdout.flush()
    except KeyboardInterrupt as error:
        terminated = isinstance(error, _Terminated)
        _say_error("terminated" if terminated else "interrupted", error)
        return 128 + (signal.SIGTERM if terminated else signal.SIGINT)
    except BrokenPipeError:  # the reader of our output, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (es_envs.UnknownEnvError, ValueError, TypeError) as error:
        _say_error(f"error: {error}", error)
        return 2
    except MemoryError as error:
        _say_error(f"error: not enough memory: {error}", error)
        return 1
    except Exception as error:
        from es_core.checkpoint import CheckpointError
        from es_core.rollout import RolloutError

        if isinstance(
            error, es_envs.PluginError | CheckpointError | RolloutError | OSError | RuntimeError | ImportError
        ):
            _say_error(f"error: {error}", error)
            return 1
        raise
    return code


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _say_error(text: str, error: BaseException) -> None:
    _say("\n".join([text, *getattr(error, "__notes__", ())]))


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _say(f"warning: {message}")


def _command(*words: object) -> str:
    return shlex.join(["es-envs", *map(str, words)])


# ---- commands, in the order of the help


def _list(options: argparse.Namespace) -> None:
    definitions = [es_envs.definition(env_id) for env_id in es_envs.env_ids()]
    if options.json:
        _print_json([{"id": d.id, "plugin": d.plugin, "summary": d.summary} for d in definitions])
        return
    _print_table([(d.id, d.plugin or "", d.summary) for d in definitions])
    if not definitions:
        _say("no plugin registers an environment; any id that Gymnasium knows works too, such as CartPole-v1")


def _show(options: argparse.Namespace) -> None:
    definition = es_envs.definition(options.env_id)
    if options.json:
        _print_json(asdict(definition))
        return
    with contextlib.closing(definition.build()) as env:
        spaces = env.observation_space, env.action_space
    rows = [
        ("id", definition.id),
        ("plugin", definition.plugin or "(none)"),
        ("summary", definition.summary),
        ("entry point", str(definition.entry_point)),
        ("observations", str(spaces[0])),
        ("actions", str(spaces[1])),
        ("fitness", ", ".join(es_envs.fitness.fitness_names(definition))),
        ("step limit", str(definition.max_episode_steps)),
        ("solved at", str(definition.solved_at)),
        ("recommended", ", ".join(f"{name}={value}" for name, value in definition.recommended.items())),
    ]
    _print_table([(name, value) for name, value in rows if value])
    sheet = inspect.getdoc(env.unwrapped)
    if sheet:
        print(f"\n{sheet}")


def _plugins(options: argparse.Namespace) -> None:
    found = es_envs.plugins()
    if options.json:
        _print_json([asdict(plugin) for plugin in found])
        return
    _print_table([(p.name, p.version, p.distribution, p.status, p.error or ", ".join(p.ids)) for p in found])


def _check(options: argparse.Namespace) -> int:
    from es_envs.testing import examine

    report = examine(options.env_id)
    if options.json:
        costs = {name: value for name, value in asdict(report).items() if name.endswith("_microseconds")}
        _print_json(
            {**asdict(report), **{name: value if math.isfinite(value) else None for name, value in costs.items()}}
        )
    else:
        rows = [(result.status, " ".join((result.message or result.question).split())) for result in report.results]
        _print_table(rows)
        if math.isfinite(report.step_microseconds):
            print(
                f"a reset takes {report.reset_microseconds:.1f} µs, a step {report.step_microseconds:.1f} µs; "
                f"{report.distinct_starts} of 8 seeds give different starts"
            )
    return 1 if report.faults else 0


def _train(options: argparse.Namespace) -> None:
    from es_core.train import train

    run = train(
        options.env_id,
        run_dir=options.run_dir,
        workers=options.workers,
        pool=options.pool,
        initial=options.initial,
        max_seconds=options.max_seconds,
        progress=not options.quiet,
        **_care(options),
        **_config_fields(options),
    )
    _report_run(run, options)


def _resume(options: argparse.Namespace) -> None:
    from es_core.run import Run

    run = Run.open(options.run, trust=options.trust_names)
    before = len(run.history)
    run = run.resume(
        workers=options.workers,
        pool=options.pool,
        max_seconds=options.max_seconds,
        progress=not options.quiet,
        **_care(options),
        **_config_fields(options),
    )
    if len(run.history) == before and run.end is not None:
        _say(f"nothing to do in {run.directory}")
    _report_run(run, options)


def _evaluate(options: argparse.Namespace) -> None:
    from es_core.evaluate import evaluate

    score = evaluate(options.source, workers=options.workers, **_episodes(options))
    if options.json:
        _print_json(score.to_json())
    else:
        print(f"fitness {score}")


def _record(options: argparse.Namespace) -> None:
    from es_core.record import record

    path = options.path or _default_film(options.source)
    episodes = record(
        options.source,
        path,
        width=options.width,
        height=options.height,
        fps=options.fps,
        workers=options.workers,
        progress=not options.quiet,
        **_episodes(options),
    )
    if options.json:
        _print_json({"path": str(path), "fitness": [episode.fitness for episode in episodes]})
    else:
        print(path)
        _say("fitness of what was filmed: " + ", ".join(f"{episode.fitness:.2f}" for episode in episodes))


def _replay(options: argparse.Namespace) -> None:
    from es_core.replay import replay
    from es_core.rollout import RolloutError

    faulthandler.enable(file=2)  # a simulator that crashes takes this process with it
    given = {name: getattr(options, name) for name in ("generation", "candidate", "seed")}
    try:
        episode = replay(options.run, trust=options.trust_names, **given)
    except RolloutError as error:
        traceback.print_exception(error.__cause__)
        if options.json:
            _print_json({"reproduced": True, "kind": type(error.__cause__).__name__, "message": str(error.__cause__)})
        raise
    except KeyboardInterrupt:
        traceback.print_exc()  # where it hangs
        raise
    if options.json:
        _print_json({"reproduced": False, "fitness": episode.fitness, "length": episode.length})
    else:
        print(f"not reproduced: the episode has ended after {episode.length} steps with fitness {episode.fitness:.2f}")


def _bench(options: argparse.Namespace) -> None:
    from es_core.bench import bench

    _say(f"measuring {options.env_id} for {2 * options.seconds:.0f} seconds or more")
    result = bench(options.env_id, workers=options.workers, seconds=options.seconds, **_config_fields(options))
    if options.json:
        _print_json({**asdict(result), "share": result.share})
        return
    total = result.workers * 1e6 / result.training
    parts = [(name, getattr(result, name)) for name in ("environment", "policy", "noise", "update", "waiting")]
    _print_table(
        [
            ("bare environment", f"{result.bare:,.0f} steps/s", f"{result.workers} processes at once"),
            ("training", f"{result.training:,.0f} steps/s", f"{result.share:.0%} of that"),
            ("", "", ""),
            ("a step takes a worker", f"{total:.2f} µs", ""),
            *((f"  {name}", f"{value:.2f} µs", f"{value / total:.0%}") for name, value in parts),
        ]
    )
    if result.advice:
        _say(result.advice)


def _tune(options: argparse.Namespace) -> None:
    from es_core.domains import text_of
    from es_core.tune import tune

    result = tune(
        options.env_id,
        search=dict(map(_searched, options.search)),
        trials=options.trials,
        seeds=options.seeds,
        max_seconds=options.max_seconds,
        directory=options.dir,
        workers=options.workers,
        pool=options.pool,
        progress=not options.quiet,
        **_config_fields(options),
    )
    pool = [] if options.pool == "local" else ["--pool", options.pool]
    command = _command("train", options.env_id, *_arguments(result.settings), *pool)
    if options.json:
        found = {"run": str(result.run.directory), "settings": result.settings, "command": command}
        trials = [asdict(trial) for trial in result.trials]
        _print_json({"directory": str(result.directory), **found, "best": asdict(result.best), "trials": trials})
        return
    complete = [trial for trial in result.trials if trial.state == "complete"]
    best = sorted(complete, key=lambda trial: trial.value, reverse=True)[:_SHOWN_TRIALS]
    rows = [
        (
            str(trial.number + 1),
            f"{trial.solved} of {result.seeds}",
            f"{trial.fitness:.2f}",
            f"{trial.steps:,.0f}".replace(",", " "),
            *map(text_of, trial.settings.values()),
        )
        for trial in best
    ]
    _print_table([("trial", "solved", "fitness", "steps", *result.best.settings), *rows])
    print(f"\n{command}")
    states = [trial.state for trial in result.trials]
    _say(f"{len(states)} trials: " + ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states)))
    _say(f"Next: the command above; what it makes is already there: {_command('evaluate', result.run.directory)}")


def _demo(options: argparse.Namespace) -> None:
    from es_core.train import train

    if DEMO_ENV not in es_envs.env_ids():
        found = (
            "; ".join(f"plugin {p.name}: {p.error}" for p in es_envs.plugins() if p.error)
            or "its plugin is not installed"
        )
        raise RuntimeError(f"the demo needs {DEMO_ENV}: {found}")
    _say(f"Evolving a policy for {DEMO_ENV}: {es_envs.definition(DEMO_ENV).summary}")
    run = train(
        DEMO_ENV, run_dir=options.run_dir, workers=options.workers, seed=options.seed, progress=not options.quiet
    )
    _say("Scoring it on 100 starts that it has never seen")
    print(f"fitness {run.evaluate(workers=options.workers)}; the best possible is 500")
    path = run.directory / "videos" / f"{DEMO_ENV}.mp4"
    _say("Filming the first of those episodes")
    run.record(path, width=options.width, height=options.height, workers=options.workers, progress=not options.quiet)
    print(f"film: {path}")
    _say(f"Next: {_command('train', 'RaceCar-v0')} (a few minutes), {_command('list')}, {_command('--help')}")


# ---- what they share


def _report_run(run: "Run", options: argparse.Namespace) -> None:
    from es_core.advice import advice

    last = run.history[-1] if run.history else None
    best = run.best
    confirmed = {stats.generation: stats.confirmation for stats in run.history}
    score = confirmed.get(best.generation) if best else None
    if options.json:
        summary = {
            "directory": str(run.directory),
            "generation": last.generation if last else None,
            "solved": bool(last and last.solved),
            "end": run.end,
            "advice": advice(run.history),
            "total_steps": last.total_steps if last else 0,
            "best": {"generation": best.generation, **score.to_json()} if best and score else None,
        }
        _print_json(summary)
        return
    print(run.directory)
    if last is not None:
        steps = f"{last.total_steps:,}".replace(",", " ")
        _say(f"{_ending(run)}; {steps} environment steps")
    if sentence := advice(run.history):
        _say(f"advice: {sentence}")
    if best is not None and score is not None:
        _say(f"best centre, of generation {best.generation}: fitness {score}")
    _say(f"Next: {_command('evaluate', run.directory)}; {_command('record', run.directory)}")


def _ending(run: "Run") -> str:
    """Where the run stands, and why it ended there if it has."""
    last = run.history[-1].generation
    if run.end == "solved":
        return f"solved in generation {last}"
    if run.end is None:
        return f"stopped after generation {last}, {_command('resume', run.directory)} continues"
    bound, flag = f"{run.end}={getattr(run.config, run.end)}", f"--{run.end.replace('_', '-')}"
    return f"stopped after generation {last}, since {bound} is reached ({flag} of `es-envs resume` allows more)"


def _episodes(options: argparse.Namespace) -> dict[str, Any]:
    """Which episodes of which policy, for `evaluate` and `record` alike."""
    given = {name: getattr(options, name) for name in ("episodes", "seed", "generation")}
    return {**given, "trust": options.trust_names}


def _care(options: argparse.Namespace) -> dict[str, Any]:
    """How the workers are looked after, where that was given."""
    return {name: getattr(options, name) for name in ("step_timeout", "recycle_after") if hasattr(options, name)}


def _config_fields(options: argparse.Namespace) -> dict[str, Any]:
    """The fields of TrainConfig that were given."""
    from es_core.config import option_fields

    return {field.name: getattr(options, field.name) for field in option_fields() if hasattr(options, field.name)}


def _default_film(source: str) -> Path:
    folder = Path(source) / "videos" if Path(source).is_dir() else Path(source).resolve().parent
    number = 1
    while (folder / f"film-{number}.mp4").exists():
        number += 1
    return folder / f"film-{number}.mp4"


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, allow_nan=False, default=str))


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


# ---- arguments


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="es-envs", description="Evolve policies for your own simulations.")
    parser.add_argument("--version", action="version", version=f"es-envs {version('es-envs')}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(
        name: str, run: Callable[[argparse.Namespace], int | None], help_text: str, *, as_json: bool = True
    ) -> Any:
        sub = commands.add_parser(name, help=help_text, description=help_text[0].upper() + help_text[1:] + ".")
        sub.add_argument("--quiet", action="store_true", help="show no progress")
        if as_json:
            sub.add_argument("--json", action="store_true", help="print the result as JSON")
        sub.set_defaults(command=run)
        return sub

    command("list", _list, "list the environments that plugins register")
    command("show", _show, "show an environment: settings, spaces, reward").add_argument("env_id", metavar="ID")
    command("plugins", _plugins, "list the plugins, and what is wrong with those that do not work")

    sub = command("check", _check, "check that an environment keeps the promises on which training relies")
    sub.add_argument("env_id", metavar="ID", help="see `es-envs list`; ids that Gymnasium knows work too")

    sub = command("train", _train, "evolve a policy for an environment")
    sub.add_argument("env_id", metavar="ID", help="see `es-envs list`; ids that Gymnasium knows work too")
    sub.add_argument("--run-dir", metavar="DIR", help="folder of the run (default: runs/ID/DATE-TIME-sSEED)")
    sub.add_argument("--initial", metavar="CHECKPOINT", help="start from the policy in this file")
    _add_training(sub)
    _add_config_options(sub)

    from es_core.config import BOUNDS, option_fields

    sub = command("resume", _resume, "continue a run where its latest checkpoint stands")
    sub.add_argument("run", metavar="RUN", help="a run folder")
    for field in option_fields():
        if field.name in BOUNDS:
            _add_config_option(sub, field, f"a later end: {field.metadata['help']}")
    _add_training(sub)
    _add_trust(sub)

    sub = command(
        "replay", _replay, "play an episode that failed while training again, with a traceback; 1 if it fails again"
    )
    _add_replay_options(sub)

    sub = command("evaluate", _evaluate, "score a policy on starts that its training never saw")
    _add_policy(sub, episodes=100)
    _add_workers(sub)

    sub = command("record", _record, "film a policy")
    _add_policy(sub, episodes=1)
    sub.add_argument("path", nargs="?", metavar="FILM.mp4", help="default: a new file in the run's folder videos/")
    _add_size(sub)
    _add_workers(sub)
    sub.add_argument("--fps", type=float, metavar="RATE", help="frames a second at most (default: 30)")

    sub = command(
        "bench", _bench, "measure how fast an environment steps and trains, and where the rest of the time goes"
    )
    sub.add_argument("env_id", metavar="ID", help="see `es-envs list`; ids that Gymnasium knows work too")
    sub.add_argument(
        "--seconds", type=float, default=4.0, metavar="S", help="for each measurement (default: %(default)s)"
    )
    _add_workers(sub)
    _add_config_options(sub)

    sub = command("tune", _tune, "search for settings with which evolution does best, or continue such a search")
    _add_tune_options(sub)

    sub = command("demo", _demo, "evolve, score and film a policy for the cart-pole", as_json=False)
    sub.add_argument("--seed", type=int, default=0, metavar="S", help="root of all randomness (default: %(default)s)")
    sub.add_argument("--run-dir", metavar="DIR", help="folder of the run (default: runs/ID/DATE-TIME-sSEED)")
    _add_workers(sub)
    _add_size(sub)
    return parser


def _add_tune_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("env_id", metavar="ID", help="see `es-envs list`; ids that Gymnasium knows work too")
    sub.add_argument(
        "--search",
        action="append",
        default=[],
        metavar="NAME=VALUES",
        help="a setting and its values: LOW..HIGH, A|B|C, or a JSON list; may be given several times (default: sigma, "
        "population_size and a few more, as the strategy has them)",
    )
    sub.add_argument("--trials", type=int, default=30, metavar="N", help="choices of settings (default: %(default)s)")
    sub.add_argument("--seeds", type=int, default=2, metavar="N", help="runs of each trial (default: %(default)s)")
    sub.add_argument("--dir", metavar="DIR", help="folder of the search (default: runs/tune/ID-HASH of what is asked)")
    _add_workers(sub, pool=True)
    _add_max_seconds(sub)
    _add_config_options(sub)


def _add_workers(sub: argparse.ArgumentParser, *, pool: bool = False) -> None:
    sub.add_argument("--workers", type=int, metavar="N", help="worker processes (default: the usable cores)")
    if pool:
        sub.add_argument("--pool", choices=("local", "batched"), default="local", help=_POOL_HELP)


def _add_max_seconds(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--max-seconds", type=float, metavar="S", help="stop after the generation in which so much time has passed"
    )


def _add_replay_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("run", metavar="RUN", help="a run folder")
    sub.add_argument("--generation", type=int, required=True, metavar="G", help="of which the checkpoint is there")
    sub.add_argument("--candidate", type=int, metavar="C", help="its index (default: the centre, as it is evaluated)")
    sub.add_argument("--seed", type=int, required=True, metavar="S", help="of the episode")
    _add_trust(sub)


def _add_training(sub: argparse.ArgumentParser) -> None:
    """How a run is carried out."""
    _add_workers(sub, pool=True)
    _add_max_seconds(sub)
    sub.add_argument(
        "--step-timeout",
        type=float,
        default=argparse.SUPPRESS,
        metavar="S",
        help="seconds that a step or reset may take, or its worker is ended and replaced (default: 300)",
    )
    sub.add_argument(
        "--recycle-after",
        type=int,
        default=argparse.SUPPRESS,
        metavar="N",
        help="episodes, after which a worker is replaced between two generations (default: never)",
    )


def _add_trust(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--trust-names", action="store_true", help="let the run's files name modules outside the installed plugins"
    )


def _add_size(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--width", type=int, default=640, metavar="PIXELS", help="of the film (default: %(default)s)")
    sub.add_argument("--height", type=int, default=480, metavar="PIXELS", help="of the film (default: %(default)s)")


def _add_policy(sub: argparse.ArgumentParser, episodes: int) -> None:
    sub.add_argument("source", metavar="RUN", help="a run folder or a checkpoint file")
    sub.add_argument("--episodes", type=int, default=episodes, metavar="N", help="episodes (default: %(default)s)")
    sub.add_argument("--seed", type=int, default=0, metavar="S", help="which unseen starts (default: %(default)s)")
    sub.add_argument("--generation", type=int, metavar="G", help="checkpoint of this generation (default: the best)")
    _add_trust(sub)


def _add_config_options(parser: argparse.ArgumentParser) -> None:
    """An option for each field of TrainConfig; one that is not given stays out of the namespace."""
    from es_core.config import option_fields

    group = parser.add_argument_group(
        "settings: task", "defaults are those below, then the strategy's own, then what the environment recommends"
    )
    for field in option_fields():
        if field.metadata["group"]:
            group = parser.add_argument_group(f"settings: {field.metadata['group']}")
        default = f" (default: {field.default})" if field.default not in {None, MISSING} else ""
        _add_config_option(group, field, field.metadata["help"] + default)


def _add_config_option(group: Any, field: "Field[Any]", help_text: str) -> None:
    flag, text = f"--{field.name.replace('_', '-')}", help_text.replace("%", "%%")
    if field.type is bool:
        group.add_argument(flag, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=text)
    else:
        parse, metavar = _parse(field.type)
        group.add_argument(flag, type=parse, default=argparse.SUPPRESS, help=text, metavar=metavar)


def _parse(kind: Any) -> tuple[Callable[[str], Any], str]:
    """A function from an argument's text to a value of this type, and what the help calls the value.

    "none" stands for None where that is possible.
    """
    optional = isinstance(kind, types.UnionType)
    parts = [part for part in typing.get_args(kind) if part is not types.NoneType] if optional else [kind]
    base = parts[0] if len(parts) == 1 else object  # several kinds of values: JSON tells them apart
    origin = typing.get_origin(base) or base

    def parse(text: str) -> Any:
        if optional and text.lower() == "none":
            return None
        if origin is tuple:
            return tuple(int(part) for part in text.split(",") if part.strip())
        return base(text) if base in {int, float, str} else _json(text)

    # argparse says "invalid NAME value: '...'", with the function's name.
    words = {
        int: ("whole number", "N"),
        float: ("number", "NUMBER"),
        str: ("text", "NAME"),
        tuple: ("list of whole numbers (such as 32,32)", "N,N"),
    }
    parse.__name__, metavar = words.get(origin, ("JSON", "JSON"))
    return parse, metavar


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _searched(text: str) -> tuple[str, Any]:
    """The setting that ``--search`` names, and its range as a tuple, or its values as a list."""
    from es_core.config import option_fields, unknown_field

    name, _, values = (part.strip() for part in text.partition("="))
    name = name.replace("-", "_")
    kinds = {field.name: field.type for field in option_fields()}
    if name not in kinds:
        raise TypeError(unknown_field(name, set(kinds)))
    low, dots, high = values.partition("..")
    parse, kind = _parse(kinds[name])
    try:
        if values.startswith("["):
            return name, _json(values)
        if dots and "|" not in values:
            return name, (_number(low), _number(high))
        return name, [parse(value.strip()) for value in values.split("|")]
    except ValueError as error:
        raise ValueError(
            f"--search {text}: expected {name}=LOW..HIGH with two numbers, {name}=A|B|C where each is a {kind}, or "
            f"{name}=[...] with a list in JSON ({error})"
        ) from error


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _arguments(settings: Mapping[str, Any]) -> list[str]:
    """Options that give these settings: the way back through ``_parse``."""
    from es_core.config import option_fields

    kinds = {field.name: field.type for field in option_fields()}
    words = []
    for name, value in settings.items():
        flag, text = f"--{name.replace('_', '-')}", _typed(kinds[name], value)
        if kinds[name] is bool:
            words.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            words += [f"{flag}={text}"] if text.startswith("-") else [flag, text]
    return words


def _typed(kind: Any, value: Any) -> str:
    if value is None:
        return "none"
    if typing.get_origin(kind) is tuple:
        return ",".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)
