"""Every `es-envs` line of README and docs is found here, and run, or it is said why not: in the names of the tests.

The fast round checks the arguments and settings of all. The slow one runs the lines of each page in their order (but
for those of a page before it), with few generations of few short episodes. The long one runs as many generations of the
size that the line asks for, and the lines that make several runs, shortened.
"""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import registered
from documents import block, run

from es_core import Run, TrainConfig, train
from es_core.cli import main, make_parser
from es_core.cli.arguments import config_fields, parse_search

ROOT = Path(__file__).parents[2]
SMALL = ["--max-episode-steps=30", "--eval-episodes=2", "--confirm-episodes=2", "--solved-at=none"]
SHORT = ["--generations=13", "--population-size=16", *SMALL]

# Which lines are run, by what they begin with: as they stand, or with these words besides, since there is no time.
RUN = {
    "train .*--strategy sb3": ["--generations=1", "--steps-per-generation=64", *SMALL],
    "finetune": ["--steps=64", "--steps-per-generation=64", *SMALL[1:3]],
    "--version|list|show|plugins|doctor|check|bench|new|evaluate|record|export|report|compare|resume|replay|runs": [],
    "tune": [*SHORT, "--trials=3"],
    "train": SHORT,
    "collect": ["--episodes=2"],
    "adapt": ["--trials=2", "--episodes=1"],
}
SIZE = {"--population-size=16", "--max-episode-steps=30"}  # words that the long round leaves out
# Which of them only the long round runs, since each makes several runs, or needs those of a line before.
SEVERAL = "train .*--seeds|tune|compare sigma"
# Which are not, and why. Their arguments and settings are checked nevertheless.
NOT_RUN = {
    "demo": "CI runs README's command for it, which installs everything, too",
    "watch": "needs a display",
    ".*--cell": "names a cell that few generations may not fill; runs/test_repertoire.py has the commands",
    ".*faults=.*knee": "names joints of the reader's robot; environments/test_robots.py breaks others",
    ".*--pool ray": "needs a Ray cluster",
    ".*--logger wandb": "needs the network and an account",
    "train HalfCheetah": "needs the extra mujoco, and hours",
    ".*ALE[/-]Pong": "needs the extra atari, and days",
    ".*(LunarRover|lunar-rover|runs/(earth|moon|thrifty))": "environments/test_new.py follows the tutorial by the line",
    "robot my_robot|new .*--robot": "names files of the reader's; environments/test_robot_plugins.py runs the commands",
    ".*(MyRover|MyRobot|Hover)-v0": "is about a plugin of the reader's",
}
# What the documents' readers have.
ENVIRONMENTS = {
    "MyRover-v0": {},
    "MyRobot-v0": {},
    "Hover-v0": {},
    "LunarRover-v0": {"fitnesses": {"thrifty": "small_envs:constant"}},
}


def lines_of(page):
    """The words of each `es-envs` command in a page's blocks of code."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for text in (text for language, text in blocks if language in {"", "sh", "bash", "console"}):
        for line in re.findall(r"^.*\bes-envs .*$", text.replace("\\\n", " "), re.MULTILINE):
            words = []
            for word in [*shlex.split(line, comments=True), ";"]:
                if word in {"&&", "||", ";", "|", "{", "}"}:
                    if words and words[0].endswith("es-envs"):
                        yield words[1:]
                    words = []
                else:
                    words.append(word)


PAGES = {
    str(page.relative_to(ROOT)): list(lines_of(page))
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if "generated" not in page.parts
}
LINES = [(page, " ".join(words), words) for page, lines in PAGES.items() for words in lines]


def plan(words):
    """The words to be added to a line that is run, or why it is not run."""
    line = " ".join(words)
    for pattern, how in [*NOT_RUN.items(), *RUN.items()]:
        if re.match(pattern, line):
            return how
    raise AssertionError(f"es-envs {line}: say in RUN or NOT_RUN of {__file__} whether it can be run")


def told(page, words):
    """The name of a test: the line, and what is done with it."""
    how, line = plan(words), " ".join(words)
    if not isinstance(how, str):
        how = "in the long round" if re.match(SEVERAL, line) else "shortened" if how else "run"
    return f"{page}: {line} [{how}]"


@pytest.fixture
def readers():
    with contextlib.ExitStack() as stack:
        for env_id, fields in ENVIRONMENTS.items():
            stack.enter_context(registered(env_id, **fields))
        yield


def test_the_lines_are_found():
    assert len(LINES) > 60
    assert ["demo"] in PAGES["README.md"]
    assert ["train", "MyRover-v0"] in PAGES["README.md"]
    assert any(line.endswith("--preprocessing skip=4,grey=true,resize=84,stack=4") for _, line, _ in LINES)


@pytest.mark.parametrize(
    ("page", "words"), [pytest.param(page, words, id=told(page, words)) for page, _, words in LINES]
)
def test_a_line_has_arguments_and_settings_that_there_are(page, words, readers, capsys):
    if words == ["--version"]:
        return
    options, unknown = make_parser().parse_known_args(words)
    assert not unknown
    if words[0] in {"train", "bench", "tune"}:
        if options.env_id.startswith("ALE/"):
            pytest.importorskip("ale_py")
        config = TrainConfig.for_env(options.env_id, **config_fields(options))
        for name, values in map(parse_search, getattr(options, "search", [])):
            assert hasattr(config, name)
            assert values


@pytest.mark.parametrize(
    ("page", "need"),
    [("watch", "display"), ("export", "[export]"), ("export", "[minari]"), ("tuning", "[tune]"), ("cluster", "[ray]")],
)
def test_the_page_of_a_command_that_needs_more_says_what(page, need):
    assert need in (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Slurm's example is a script for bash")
def test_jobs_that_are_queued_again_continue_a_run_until_it_is_finished(tmp_path, monkeypatch):
    """Slurm's example as bash runs it, with an srun that runs its command here; then Kubernetes', for the same run."""
    (tmp_path / "bin").mkdir()
    srun = tmp_path / "bin" / "srun"
    srun.write_text(f'#!/bin/sh\nshift\nexec {sys.executable} -m es_core "$@" {" ".join(SHORT)} --max-seconds 0.01\n')
    srun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{srun.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "1")
    (tmp_path / "job.sh").write_text(block("slurm"), encoding="utf-8")
    lengths = []
    for _ in range(3):
        run("bash", "job.sh", cwd=tmp_path)
        lengths.append(len(Run.open(tmp_path / "runs" / "car").history))
    assert lengths == [1, 2, 3]
    yaml = pytest.importorskip("yaml")
    (container,) = yaml.safe_load(block("kubernetes"))["spec"]["template"]["spec"]["containers"]
    words = [word.replace("/runs/", f"{tmp_path}/runs/") for word in container["command"]]
    assert words[0] == "es-envs"
    for _ in range(2):
        assert main([*words[1:], *SHORT, "--workers=1", "--quiet"]) == 0
    assert Run.open(tmp_path / "runs" / "car").finished


# Of a process that cannot import what is blocked, as if it were not installed.
SITECUSTOMIZE = """
from importlib.machinery import PathFinder
BLOCKED = {"pybullet", "pybullet_data", "torch", "ray", "optuna", "tensorboard", "wandb", "onnxruntime", "cv2"}
BLOCKED |= {"minari", "stable_baselines3", "sb3_contrib"}
find = PathFinder.find_spec
PathFinder.find_spec = classmethod(
    lambda _, name, *rest: None if name.partition(".")[0] in BLOCKED else find(name, *rest)
)
"""


@pytest.mark.slow
def test_the_documentation_is_whole_without_pybullet_and_other_extras(tmp_path):
    for name in ("docs", "examples", "plugins", "es_core", "es_envs", "tests/project"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("generated", "*.egg-info", "build"))
    for page in ROOT.glob("*.md"):
        shutil.copy(page, tmp_path)
    (tmp_path / "sitecustomize.py").write_text(SITECUSTOMIZE, encoding="utf-8")
    words = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "docs", "site"]
    done = subprocess.run(
        words,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "site" / "reference.html").read_text(encoding="utf-8")
    assert 'id="es_envs.bullet.BulletEnv"' in reference


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with three runs of the racing car, which are what documents call RUN or runs/RaceCar-v0/…"""
    folder = tmp_path_factory.mktemp("reader") / "runs"
    settings = {"generations": 13, "population_size": 8, "max_episode_steps": 30, "eval_episodes": 2}
    for seed in range(3):
        where = folder / "RaceCar-v0" / f"s{seed}"
        train("RaceCar-v0", seed=seed, run_dir=where, confirm_episodes=2, progress=False, **settings)
    return folder


def do(words, number):
    """Run a line; what is called RUN is one of three runs of the racing car."""
    names = iter(sorted(map(str, Path().glob("runs/RaceCar-v0/s?"))))
    words = [next(names) if word == "RUN" or word.endswith("/…") else word for word in words]
    words = [name for word in words for name in (sorted(map(str, Path().glob(word))) if "*" in word else [word])]
    if words[0] == "new":  # of which a page shows two, of the same name
        Path(f"new-{number}").mkdir()
        with contextlib.chdir(f"new-{number}"):
            return main(words)
    with contextlib.suppress(SystemExit):
        return main(words)
    return 0


@pytest.mark.parametrize(
    ("page", "shortened"),
    [
        pytest.param(page, shortened, marks=mark, id=f"{page} {'shortened' if shortened else 'of real size'}")
        for shortened, mark in ((True, [pytest.mark.slow]), (False, [pytest.mark.long]))
        for page, lines in PAGES.items()
        if any(isinstance(plan(words), list) for words in lines)
        and (shortened or any(SIZE.intersection(plan(words)) for words in lines))
    ],
)
def test_the_lines_of_a_page_do_what_they_say(page, shortened, runs, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(runs, "runs")
    (tmp_path / "docs" / "images").mkdir(parents=True)
    before = [words for name in list(PAGES)[: list(PAGES).index(page)] for words in PAGES[name]]
    for number, words in enumerate(PAGES[page]):
        more = plan(words)
        several = re.match(SEVERAL, " ".join(words))
        if isinstance(more, list) and words not in before and not (shortened and several):
            code = do([*words, *(word for word in more if shortened or several or word not in SIZE)], number)
            assert code == 0, (words, capfd.readouterr().err)
