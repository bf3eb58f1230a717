"""Comparisons of runs: groups, statistics with known answers, the command and its page."""

import json
import math
import re
import shutil

import numpy as np
import pytest
from browser import BITES, Page, asked, chromium, console, needs_chromium, visit

from es_core import compare, train
from es_core.cli import main
from es_core.statistics import compare_paired, compare_unpaired, interquartile_mean, mean, mean_band


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A real run of three generations, from whose files those of others are made."""
    return train("CartPole-v1", run_dir=tmp_path_factory.mktemp("runs") / "template", generations=3, population_size=4,
                 eval_episodes=2, eval_budget=None, confirm_episodes=2, hidden_sizes=(), max_episode_steps=30,
                 workers=1, progress=False)  # fmt: skip


@pytest.fixture
def made(template, tmp_path):
    """``made(seed, score, solved=False, **settings)``: the folder of a run that would have ended like this."""

    def made(seed, score, *, solved=False, **settings):
        folder = tmp_path / f"run {len(list(tmp_path.iterdir()))}"
        shutil.copytree(template.directory, folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "seed": seed, **settings}))
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        lines[1]["confirmation"] = {**lines[0]["confirmation"], "mean": score + 1, "interval": [score - 1, score + 2]}
        lines[1]["solved"] = solved
        kept = lines[:2] if solved else lines
        kept[-1]["final"] = {**lines[1]["confirmation"], "mean": score}
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))
        return folder

    return made


def test_runs_that_differ_only_in_the_seed_are_a_group_and_paired(made):
    slow = [made(seed, 100.0 + seed, sigma=0.1) for seed in (3, 1, 2, 4, 5, 6)]
    fast = [made(seed, 110.0 + 2 * seed, sigma=0.2) for seed in (1, 2, 3, 4, 5, 6)]
    found = compare([*slow, *fast])
    assert [group.name for group in found.groups] == ["sigma=0.1", "sigma=0.2"]
    assert found.groups[0].seeds == (1, 2, 3, 4, 5, 6)
    assert found.groups[0].scores == (101.0, 102.0, 103.0, 104.0, 105.0, 106.0)
    assert found.groups[0].fitness.value == 103.5
    low, high = found.groups[0].fitness.interval
    assert (low, high) == pytest.approx((101.54, 105.46), abs=0.01)  # by Student's t
    (contrast,) = found.contrasts
    assert (contrast.group, contrast.against, contrast.measure) == ("sigma=0.2", "sigma=0.1", "fitness")
    assert contrast.difference.method == "paired, exact"
    assert contrast.difference.value == pytest.approx(13.5)
    assert contrast.difference.p == contrast.difference.least == 2 / 64
    assert contrast.difference.correlation == pytest.approx(1)


def test_a_groups_name_has_what_was_chosen_and_not_what_followed_from_it(made):
    ruled = {"strategy": "cma_es", "population_size": 16, "decided": ["strategy", "population_size"]}
    other = {"strategy": "ars", "sigma": 0.03, "learning_rate": 0.02, "decided": ["population_size", "hidden_sizes"]}
    found = compare(
        [made(1, 100.0, **ruled), made(2, 110.0, **{**ruled, "decided": ["strategy"]}), made(1, 9.0, **other)]
    )
    assert [(group.name, len(group.runs)) for group in found.groups] == [("strategy=cma_es", 2), ("strategy=ars", 1)]
    assert {"population_size", "learning_rate"} <= found.settings.keys()  # all of them are in the page's table
    assert "decided" not in found.settings
    ruled["hidden_sizes"] = [16]
    found = compare(
        [made(3, 100.0, **ruled), made(3, 9.0, **{**other, "sigma": 0.03}), made(4, 9.0, **ruled | {"sigma": 0.7})]
    )
    assert [group.name for group in found.groups][2].count("sigma=0.7, hidden_sizes=[16]") == 1
    assert not any("population_size" in group.name for group in found.groups)


def test_a_folder_of_runs_stands_for_all_of_them(made, tmp_path, capsys):
    runs = [made(seed, 100.0 + seed, sigma=0.1) for seed in (1, 2)]
    alone = made(3, 110.0, sigma=0.2)
    group = tmp_path / "group"
    (group / "below").mkdir(parents=True)
    (group / "settings.json").write_text("{}")
    inside = [run.rename(group / place / run.name) for run, place in zip(runs, ("", "below"), strict=True)]
    assert compare([group, alone]).to_json() == compare([*sorted(inside), alone]).to_json()
    assert main(["compare", str(group), str(tmp_path / "page.html")]) == 0
    assert "\nall runs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("runs", "settings", "lost"),
    [
        (5, {}, ()),
        (6, {"env_kwargs": {"x": 1}}, ()),
        (6, {"randomize": {"x": [0, 1]}}, ()),
        (6, {"confirm_episodes": 3}, ()),
        (6, {"vector_starts": "seeded as a whole"}, ()),
        (6, {}, ("final",)),
    ],
    ids=["five pairs", "other environments", "other ranges", "other starts", "starts of copies", "no final scores"],
)
def test_runs_that_share_only_a_seeds_number_are_not_paired(runs, settings, lost, made):
    first = [made(seed, 100.0 + seed, sigma=0.1) for seed in range(runs)]
    other = [made(seed, 110.0 + seed, sigma=0.2, **settings) for seed in range(runs)]
    for file in [folder / "metrics.jsonl" for folder in (*first, *other) if lost]:
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        file.write_text("".join(json.dumps({**line, **dict.fromkeys(lost)}) + "\n" for line in lines))
    (contrast,) = compare([*first, *other]).contrasts
    assert contrast.difference.method == "Welch's t"
    assert contrast.difference.p < 0.001


def test_other_seeds_are_unpaired_and_steps_compared_once_all_are_solved(made):
    first = [made(seed, 100.0 + seed, solved=True, sigma=0.1) for seed in (1, 2, 3)]
    second = [made(seed, 200.0 + seed, solved=True, sigma=0.2) for seed in (1, 2, 4)]
    found = compare([*first, *second])
    assert [group.solved for group in found.groups] == [3, 3]
    fitness, steps = found.contrasts
    assert fitness.difference.method == "Welch's t"
    assert 0 < fitness.difference.p < 0.001
    assert (steps.measure, steps.difference.value, steps.difference.p) == ("steps to solve", 0, None)


def test_an_interval_of_steps_ends_at_the_fewest_and_the_most(made):
    solved = [made(seed, 100.0, solved=seed == 1) for seed in (1, 2)]
    (group,) = compare(solved).groups
    assert group.steps.interval == tuple(sorted(run.history[-1].search_steps for run in group.runs))


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([{"seed": 1}], "at least two runs"),
        ([{"seed": 1}, {"seed": 1}], "the same run twice"),
        (
            [{"seed": 1}, {"seed": 2, "fitness": "episode_length"}],
            "cannot be compared; .* score each run by one fitness: `es-envs evaluate RUN --fitness NAME`",
        ),
        ([{"seed": 1}, {"seed": 2, "env_id": "Acrobot-v1"}], "cannot be compared"),
        ([{"seed": 1}, None], "no generation is finished"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused_in_a_sentence(runs, message, made):
    folders = [made(9 if fields is None else fields.pop("seed"), 1.0, **(fields or {})) for fields in runs]
    if runs[-1] is None:
        (folders[-1] / "metrics.jsonl").unlink()
    with pytest.raises(ValueError, match=message):
        compare(folders)


def test_means_and_tests_have_the_values_that_they_have_by_hand():
    assert interquartile_mean([0, 0, 10, 10, 100]).value == pytest.approx((0.75 * 0 + 10 + 0.75 * 10) / 2.5)
    assert interquartile_mean(list(range(1, 9))).value == 4.5
    assert mean([7.0]).interval is None
    assert mean([1.0, 2.0, 3.0]) == mean([1.0, 2.0, 3.0])
    # t = 3 / sqrt(2 / 3) with 4 degrees of freedom
    assert compare_unpaired([1, 2, 3], [4, 5, 6]).p == pytest.approx(0.0213, abs=1e-4)
    assert compare_unpaired([1], [4, 5, 6]).p is None
    assert compare_unpaired([1, 1, 1], [4, 4, 4]).p is None
    assert 0 < compare_unpaired([1, 1, 1], [4, 5, 6]).p < 0.05
    assert compare_paired([1, 1, 1], [1, 1, 1]).p == 1
    assert compare_paired([0, 0, 0, 0], [1, 2, 3, -1]).p == 6 / 16
    for scale in 1e-12, 1e9:
        numbers = scale * np.arange(1, 9)
        assert compare_paired(numbers, numbers + 5 * scale).p == 2 / 2**8
    assert compare_paired([500.0] * 8, [np.nextafter(500, 501)] * 8).p == 1


def test_sampled_relabellings_come_near_the_exact_answer():
    generator = np.random.default_rng(5)
    first, second = generator.normal(0, 1, 20), generator.normal(0.7, 1, 20)
    paired = compare_paired(first, second)
    assert paired.method == "paired, sampled"
    assert paired == compare_paired(first, second)
    # Student's t, which normal numbers allow
    t = paired.value / np.std(second - first, ddof=1) * math.sqrt(20)
    assert paired.p == pytest.approx(math.erfc(abs(t) / math.sqrt(2)), abs=0.02)


@pytest.mark.parametrize(("pairs", "least"), [(6, 2 / 2**6), (15, 2 / 2**15), (16, 1 / 50_001), (60, 1 / 50_001)])
def test_the_clearest_difference_has_the_smallest_p_that_is_reported(pairs, least):
    # 100 pairs of 16 differ by as much only if none or all of the signs are drawn.
    difference = compare_paired([0] * pairs, range(1, pairs + 1))
    assert difference.least == least
    assert least <= difference.p <= 6 * least
    assert f"; p is at least {least:.2g}" in difference.test


@pytest.mark.parametrize(("n", "m", "spread"), [(5, 5, 1), (5, 5, 5), (5, 10, 5), (10, 5, 5), (5, 15, 5)])
def test_equal_groups_differ_significantly_in_one_case_of_twenty(n, m, spread):
    generator = np.random.default_rng(n * m + spread)
    found = [compare_unpaired(spread * generator.normal(size=n), generator.normal(size=m)).p for _ in range(2000)]
    assert np.mean(np.array(found) <= 0.05) == pytest.approx(0.05, abs=0.02)


def test_five_runs_each_show_a_difference_of_two_standard_deviations():
    generator = np.random.default_rng(1)
    found = [compare_unpaired(generator.normal(size=5), generator.normal(2, 1, size=5)).p for _ in range(500)]
    assert np.mean(np.array(found) <= 0.05) > 0.7


def test_the_interval_of_a_curve_is_over_whole_runs():
    curves = np.array([[0.0, 0.0, np.nan], [10.0, 20.0, 5.0]])
    for times in (1, 10):  # by Student's t, and by the bootstrap
        values, low, high = mean_band(np.tile(curves, (times, 1)))
        assert values[:2].tolist() == [5, 10]
        assert np.isnan([values[2], low[2], high[2]]).all()
        assert (low[:2] < values[:2]).all()
        assert 2 * (high[0] - low[0]) == pytest.approx(high[1] - low[1])
    assert np.isnan(mean_band(curves[:1])[1]).all()


@pytest.mark.parametrize("axis", ["generations", "steps", "seconds"])
def test_a_curve_ends_where_its_run_ended(axis, made, tmp_path):
    """The solved run after two generations, the other one after all."""
    path = compare([made(1, 1.0, solved=True, solved_at=1e9), made(1, 1.0)]).save(tmp_path / "page.html")
    content = Page(path)
    places = content.data["grids"][axis][axis]
    for name in ("fitness", "solved"):
        marks = content.chart(name)["marks"]
        short, whole = (mark for mark in marks if mark["grid"] == axis and not mark["thin"])
        assert short["label"] == "solved_at=1e+09"
        known = [at for at, value in zip(places, short["values"], strict=True) if value is not None]
        lines = [json.loads(line) for line in (tmp_path / "run 0" / "metrics.jsonl").read_text().splitlines()]
        searched = lines[-1]["total_steps"] - lines[-1]["final"]["steps"]
        ends = {"generations": 1, "steps": searched, "seconds": sum(line["seconds"] for line in lines)}
        assert max(known) == pytest.approx(ends[axis], rel=1e-5)
        assert whole["values"][-1] is not None


def test_a_verdict_says_which_group_is_better_or_that_nobody_can_tell(made):
    low = [made(seed, 100.0 + seed, solved=True, sigma=0.1) for seed in (1, 2, 3)]
    high = [made(seed, 200.0 + seed, solved=True, sigma=0.2) for seed in (1, 2, 4)]
    better, steps = compare([*low, *high]).verdicts
    assert re.fullmatch(
        r"sigma=0.2 is better than sigma=0.1: fitness 202.3 \(.* to 204.0\) against 102.0 \(.*\), p = .*", better
    )
    assert steps.startswith("too few runs, or too much alike, to tell ")
    assert compare(low).verdicts == ("one group of 3 runs: fitness 102.0 (101.0 to 103.0)",)


def test_groups_of_seeds_are_named_and_a_folder_of_them_is_compared(made, tmp_path, capsys):
    made(7, 1.0, sigma=0.3)
    for sigma in (0.1, 0.2):
        (tmp_path / f"s{sigma}").mkdir()
        for seed in (0, 1, 2):
            made(seed, 100.0 + seed, sigma=sigma).rename(tmp_path / f"s{sigma}" / f"seed-{seed}")
    assert main(["runs", str(tmp_path)]) == 0
    listed = capsys.readouterr().out.partition("Runs that differ only in the seed:\n")[2]
    for sigma in (0.1, 0.2):
        assert re.search(rf"  sigma={sigma}  0\.\.2   0 of 3  101\.0 \(.*\n  es-envs compare .*s{sigma}\n", listed)
    assert main(["report", str(tmp_path / "s0.1"), "--quiet"]) == 0
    assert "all runs" in capsys.readouterr().out
    assert (tmp_path / "s0.1" / "compare.html").exists()
    assert main(["report", str(tmp_path / "s0.1"), "--film"]) == 2
    assert "has 3 runs: --film and --follow are for a page about one" in capsys.readouterr().err


def test_the_command_prints_a_table_or_json_and_writes_the_page(made, tmp_path, capsys):
    runs = [str(made(seed, 100.0 * seed + more, activation=name)) for name, more in (("tanh", 0), ("relu", 5))
            for seed in (1, 2, 3)]  # fmt: skip
    path = tmp_path / "page.html"
    assert main(["compare", *runs, "-o", str(path)]) == 0
    out = capsys.readouterr().out
    assert "activation=relu" in out
    assert re.search(
        r"^no difference beyond chance between activation=relu and activation=tanh: fitness 205", out, re.MULTILINE
    )
    assert "p = 0.95" in out
    assert main(["compare", *runs, "-o", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["path"] == str(path)
    assert [group["scores"] for group in found["groups"]] == [[100, 200, 300], [105, 205, 305]]
    content = Page(path)
    for axis in ("generations", "steps", "seconds"):
        marks = [mark for mark in content.chart("fitness")["marks"] if mark["grid"] == axis]
        assert [mark["thin"] for mark in marks] == [True] * 6 + [False] * 2
        marks = marks[6:]
        assert [mark["label"] for mark in marks] == ["activation=tanh", "activation=relu"]
        assert len(marks[0]["values"]) == len(content.data["grids"][axis][axis])
        assert marks[0]["values"][-1] is not None
    assert main(["compare", runs[0], "-o", str(path)]) == 2
    assert main(["compare", *runs, "-o", "page.txt"]) == 2


def test_no_interval_in_a_chart_goes_beyond_the_runs(made, tmp_path):
    runs = [made(seed, 1.0) for seed in (1, 2)]
    for folder, mean_fitness in zip(runs, (-100.0, 300.0), strict=True):
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        scored = [line | {"evaluation": {**line["evaluation"], "mean": mean_fitness}} for line in lines]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in scored))
    chart = Page(compare(runs).save(tmp_path / "page.html")).chart("fitness")
    bands = [(mark["low"][-1], mark["high"][-1]) for mark in chart["marks"] if mark["low"] is not None]
    assert set(bands) == {(-100, 300)}


COVERED = """
const button = document.querySelector("#theme").getBoundingClientRect();
const apart = (text) => text.right <= button.left || text.left >= button.right ||
  text.bottom <= button.top || text.top >= button.bottom;
return [...document.querySelectorAll("header h1, header p")].some((element) => {
  const range = document.createRange();
  range.selectNodeContents(element);
  return ![...range.getClientRects()].every(apart);
});
"""
"""Whether the button for light and dark covers text of the header."""


@needs_chromium
@pytest.mark.slow
def test_a_browser_shows_a_comparison_of_whatever_name_and_asks_nobody(made, tmp_path):
    runs = [
        made(seed, seed, env_id="CartPoleBullet-v0", env_kwargs={"name": name})
        for name in (BITES, "</script>")
        for seed in (1, 2)
    ]
    path = compare(runs).save(tmp_path / "page.html")
    with chromium() as driver:
        for scheme, width in (("light", 1280), ("dark", 390)):
            visit(driver, path, width, scheme)
            for axis in ("steps", "seconds", "generations"):
                driver.find_element("css selector", f"[data-axis={axis}]").click()
                assert len(driver.find_elements("css selector", "#chart-fitness path.line:not(.thin)")) == 2
            assert not driver.execute_script(COVERED)
            assert driver.execute_script("return [document.documentElement.scrollWidth, window.bitten]") == [
                width,
                None,
            ]
            assert console(driver) == []
            assert asked(driver) == [path.as_uri()]
