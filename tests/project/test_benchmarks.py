"""The commands in benchmarks/ run and write finite numbers, which are not judged; pages name the settings in force."""

import ast
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from es_core import Checkpoint, TrainConfig, evaluate, train
from es_core.strategies.by_name import require_strategy

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PARTS = {
    "contenders": "defaults",
    "evotorch_script": "rivals",
    "loops": "throughput",
    "plain_script": "rivals",
    "ribs_script": "repertoires",
}
"""Scripts that others run as processes of theirs."""
COMMANDS = sorted(
    path.stem for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text() and path.stem not in PARTS
)


def refuse(constant):
    raise AssertionError(f"{constant} is written")


@pytest.mark.slow
@pytest.mark.parametrize("words", [*((name,) for name in COMMANDS), ("pure_pursuit", "--tune")], ids=" ".join)
def test_a_benchmark_can_be_tried_out_and_replaces_no_page(words, tmp_path):
    name, *others = words
    if name == "nsra_es":
        pytest.importorskip("estorch", reason="estorch is not installed")
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *others, "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=600)

    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "docs").exists()
    for path in tmp_path.glob("runs/benchmarks/**/*.json"):
        json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    if name in {"mutants", "nsra_es"}:
        return
    assert "Python" in done.stdout.splitlines()[0]
    written = tmp_path / "runs" / "benchmarks" / f"{name}.json"
    tables = [done.stdout, *(page.read_text(encoding="utf-8") for page in tmp_path.glob("runs/benchmarks/quick/*.md"))]
    assert all("\n|---|" in text for text in tables[1:] or tables)
    if written.exists():
        measured = json.loads(written.read_text(encoding="utf-8"))
        assert measured["machine"]["versions"]["es-envs"]
        assert all(number >= 0 for spread in spreads(measured["results"]) for number in spread)


def spreads(value):
    """Every measurement in a benchmark's JSON: its median, quartiles and values."""
    if isinstance(value, dict) and "values" in value:
        yield [value["median"], *value["quartiles"], *value["values"]]
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from spreads(item)


def test_each_seed_of_a_row_is_scored_on_its_own_starts_and_kept(walk, tiny, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    results = importlib.import_module("results")
    settings = {**tiny, "fitness": "small_envs:seed_of"}
    runs = [train(walk, run_dir=tmp_path / str(seed), seed=seed, **settings) for seed in (0, 1)]
    row = results.Row(title="", about="", runs={}, seeds=(0, 1), line="")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout="a commit"))
    found = [results.result_of(run, row, tmp_path / f"{run.config.seed}.json") for run in runs]
    assert found[0]["score"]["mean"] != found[1]["score"]["mean"]
    for run, result in zip(runs, found, strict=True):
        kept = Checkpoint.load(tmp_path / f"{run.config.seed}.safetensors")
        assert kept.parameter_hash == result["parameter_hash"]
        assert evaluate(kept, seed=run.config.seed, workers=1, trust=True).to_json() == result["score"]


RESULTS = sorted(set(BENCHMARKS.parent.glob("docs/results/*.md")) - {BENCHMARKS.parent / "docs/results/README.md"})


@pytest.mark.parametrize("page", RESULTS, ids=[page.stem for page in RESULTS])
def test_a_page_of_results_says_what_is_to_be_reached_and_the_table_of_all_pages_says_the_same(page):
    pattern = r"^(?:To reach|Compared): (.*?)\.(?: \*\*(Reached|Missed)\.\*\*)?$"
    line, verdict = re.search(pattern, page.read_text(encoding="utf-8"), re.MULTILINE).groups()
    (row,) = re.findall(
        rf"^\| \[.*?\]\({page.name}\) \| (.*?) \| ?(\w*) ?\|",
        page.with_name("README.md").read_text(encoding="utf-8").partition("\n## ")[0],
        re.MULTILINE,
    )
    assert row == ((line, verdict.lower()) if verdict else (f"none: it compares {line}", ""))


RUNS = sorted(BENCHMARKS.parent.glob("docs/results/strategies/*.json"))


def test_there_are_runs_of_the_table_of_strategies():
    assert len(RUNS) > 10


@pytest.mark.parametrize("path", RUNS, ids=[path.stem for path in RUNS])
def test_the_runs_of_the_table_had_the_settings_recommended_now(path):
    measured = json.loads(path.read_text(encoding="utf-8"))["config"]
    given = {name: measured[name] for name in ("strategy", "max_steps", "generations", "checkpoint_every")}
    now = TrainConfig.for_env(measured["env_id"], seed=measured["seed"], **given).to_json()
    if now["sigma"] == "auto":
        now["sigma"] = 0.05 if measured["strategy"] == "ga" else 0.1  # as the run chooses when it begins
    settled = {
        "engine",
        "device",
        "bits",
        "repeatable",
        "vector_envs",
        "vector_starts",
        "decided",
    }  # of the version or machine
    settled |= set(measured.get("decided", ()))  # by the run when it began
    compared = measured.keys() - settled  # what is newer than the table has a default that changes nothing
    assert {name: now[name] for name in compared} == {name: measured[name] for name in compared}


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="binds runs to cores")
def test_the_suite_of_defaults_is_taken_up_where_it_stopped(tmp_path):
    words = [sys.executable, str(BENCHMARKS / "defaults.py"), "--tasks", "CartPole-v1", "--seeds", "0"]
    words += ["--contenders", "es-envs", "random actions", "--seconds", "0.1", "--out", str(tmp_path)]
    told = [subprocess.run(words, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert "CartPole-v1, random actions, seed 0: " in told[0]
    assert "seed 0" not in told[1]
    trained, drawn = (json.loads((tmp_path / f"CartPole-v1-{name}-s0.json").read_text()) for name in
                      ("es-envs", "random-actions"))  # fmt: skip
    assert trained["score"]["episodes"] == drawn["score"]["episodes"] == 100
    assert trained["training_steps"] > 0 == drawn["steps"]
    assert 10 < drawn["score"]["mean"] < 40


def test_mutants_are_programs_that_differ_from_the_original(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    mutants, file = importlib.import_module("mutants"), tmp_path / "statistics.py"
    original = (BENCHMARKS.parent / "es_core" / "statistics.py").read_bytes()
    file.write_bytes(original)
    found = list(mutants.mutants(file))
    assert len(found) > 100
    for mutant in found:
        mutant.apply()
        assert ast.dump(ast.parse(file.read_bytes())) != ast.dump(ast.parse(original)), mutant
        file.write_bytes(original)


def test_every_planned_run_has_settings_that_there_are(monkeypatch):
    monkeypatch.delitem(sys.modules, "trap", raising=False)  # what it registers ends with each test
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.syspath_prepend(str(BENCHMARKS.parent / "examples"))
    rows = importlib.import_module("results").ROWS
    planned = [run for row in rows.values() for run in row.runs.values() if not run[0].startswith("envpool/")]
    assert len(planned) > 60
    for env_id, fields in planned:
        config = TrainConfig.for_env(env_id, **{name: fields[name] for name in fields.keys() - {"workers", "pool"}})
        require_strategy(config)
