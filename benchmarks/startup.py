"""How long the first result takes, what a worker weighs, and that nobody loads torch.

Usage: python benchmarks/startup.py [--quick]

Seconds are those of whole processes, from start to exit; of small commands also with 20 plugins more. Training is one
generation without evaluation. Memory is the most that was seen while the recommended settings trained with 8 workers;
PSS divides the pages that processes share among them.
"""

import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from processes import MEGABYTE, Use, es_envs_command, run, watch
from report import Report, Spread, alternate, options

ENVIRONMENTS = ("CartPoleBullet-v0", "BalancingPlate-v0", "RaceCar-v0")
ONE = ("--generations", 1, "--eval-every", 0)
TRAINING = "es-envs train CartPoleBullet-v0 --generations 1 --eval-every 0"
PLUGIN = """from es_envs import EnvDefinition, hookimpl

@hookimpl
def register_envs():
    return [EnvDefinition(id="More{number}-v0", entry_point="es_more_{number}:make", max_episode_steps=100)]
"""
METADATA = "Metadata-Version: 2.4\nName: es-more-{number}\nVersion: 1.0\nRequires-Dist: es-envs[bullet]\n"
SMALL = ("--population-size", 4, "--eval-episodes", 1, "--confirm-episodes", 1)


def training(env_id: str, folder: Path, *words: object) -> list[str]:
    """The command that trains into a new folder."""
    number = len(list(folder.iterdir()))
    return es_envs_command("train", env_id, "--run-dir", folder / str(number), "--quiet", *words)


def small_commands(folder: Path) -> dict[str, list[str]]:
    """What people type between two trainings, with 20 plugins more, which are written to ``folder``."""
    for number in range(20):
        name = f"es_more_{number}"
        (folder / f"{name}.py").write_text(PLUGIN.format(number=number), encoding="utf-8")
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(METADATA.format(number=number), encoding="utf-8")
        (info / "entry_points.txt").write_text(f"[es_envs]\nmore_{number} = {name}\n", encoding="utf-8")
    commands = (("list",), ("plugins",), ("show", "CartPoleBullet-v0"), ("--help",))
    return {
        f"es-envs {' '.join(words)}": ["env", f"PYTHONPATH={folder}", *es_envs_command(*words)] for words in commands
    }


def main() -> None:
    """Time the commands, then look at the processes of trainings."""
    given = options(__doc__)
    report = Report("startup", given.out, ("torch",))
    with TemporaryDirectory() as name:
        folder = Path(name)
        seconds = alternate(
            {
                "python -c pass": partial(run, [sys.executable, "-c", "pass"]),
                "import es_core": partial(run, [sys.executable, "-c", "import es_core"]),
                "from es_core import train": partial(run, [sys.executable, "-c", "from es_core import train"]),
                "es-envs list": partial(run, es_envs_command("list")),
                TRAINING: lambda: run(training("CartPoleBullet-v0", folder, *ONE)),
                f"{TRAINING} --workers 8": lambda: run(training("CartPoleBullet-v0", folder, *ONE, "--workers", 8)),
            },
            given.rounds,
        )
        targets = {TRAINING: "at most 1.5", f"{TRAINING} --workers 8": "at most 1.7"}
        report.head("", "seconds", "target")
        for label, spread in seconds.items():
            report.row(f"`{label}`", f"{spread:.2f}", targets.get(label, ""))

    with TemporaryDirectory() as name:
        small = alternate(
            {label: partial(run, command) for label, command in small_commands(Path(name)).items()}, given.rounds
        )
    report.head("with 20 plugins more", "seconds", "target")
    for label, spread in small.items():
        report.row(f"`{label}`", f"{spread:.2f}", "at most 0.6")

    with TemporaryDirectory() as name:
        folder = Path(name)
        uses: dict[str, list[Use]] = {env_id: [] for env_id in ENVIRONMENTS}
        words = ("--generations", 1, *SMALL) if given.quick else ("--generations", 2)
        for _ in range(given.rounds):
            for env_id, seen in uses.items():
                seen.append(watch(training(env_id, folder, "--workers", 8, *words)))
    report.head(
        "memory with 8 workers [MB]", "of one (RSS)", "of one (PSS)", "of all processes (PSS)", "target",
        "processes seen", "of these, with torch",
    )  # fmt: skip
    memory = {}
    for env_id, seen in uses.items():
        kinds = ("rss", "pss", "total_pss")
        spreads = [Spread(tuple(getattr(use, kind) / MEGABYTE for use in seen)) for kind in kinds]
        processes, with_torch = (sum(len(getattr(use, kind)) for use in seen) for kind in ("processes", "with_torch"))
        target = "at most 550, no torch"
        report.row(env_id, *(f"{spread:.0f}" for spread in spreads), target, processes, with_torch)
        memory[env_id] = dict(zip(kinds, spreads, strict=True)) | {"processes": processes, "with_torch": with_torch}
    report.save({"seconds": seconds, "small": small, "memory": memory})


if __name__ == "__main__":
    main()
