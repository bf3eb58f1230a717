"""Scores of a policy where the environment's properties vary as in training, and more."""

import json
from contextlib import closing

import pytest
from browser import Page, chromium, needs_chromium, visit
from conftest import TINY

import es_envs
from es_core import Checkpoint, evaluate, robustness, train
from es_core.cli import main
from es_core.reports.robustness_page import ALL, STRETCHES
from es_core.rollout.ranges import scaled_ranges

RANGES = {"motor_strength": [0.5, 1.5], "latency": [0, 2]}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    return train("CartPoleBullet-v0", run_dir=folder, randomize=RANGES, **TINY)


@pytest.mark.slow
def test_scores_are_those_of_stretched_ranges_from_the_same_starts(run):
    found = robustness(run, episodes=10)
    assert list(found.scores) == ["latency", "motor_strength", ALL]
    worlds = {
        "motor_strength": [{}, {"motor_strength": [0.75, 1.25]}, {"motor_strength": [0.5, 1.5]},
                           {"motor_strength": [0.25, 1.75]}],
        "latency": [{}, {"latency": [0, 1]}, {"latency": [0, 2]}, {"latency": [0, 3]}],
    }  # fmt: skip
    worlds[ALL] = [{**one, **other} for one, other in zip(worlds["motor_strength"], worlds["latency"], strict=True)]
    for name, expected in worlds.items():
        for ranges, score in zip(expected, found.scores[name], strict=True):
            assert score == evaluate(run, episodes=10, env_kwargs={"randomize": ranges})


def test_a_run_without_ranges_is_tested_with_given_ones(tmp_path):
    run = train("BalancingPlate-v0", run_dir=tmp_path / "run", max_episode_steps=50, **TINY)
    with pytest.raises(ValueError, match=r"trained without randomize: give what is to vary.*--randomize"):
        robustness(run)
    found = robustness(run, randomize={"friction": [0.9, 1.1]}, episodes=2)
    assert (list(found.scores), found.ranges) == (["friction"], {"friction": [0.9, 1.1]})
    assert len(found.scores["friction"]) == len(STRETCHES)
    assert found.widest == {"friction": [pytest.approx(0.85), pytest.approx(1.15)]}
    bounded = robustness(run, randomize={"friction": [0, 2.5]}, episodes=1)
    assert str(bounded.widest) == "{'friction': [0, 3.25]}"  # no friction is below 0, and whole numbers look it
    beside = robustness(run, randomize={"friction": [0.1, 0.2]}, episodes=1)
    assert beside.widest == {"friction": [0, 0]}  # though both ends are below 0 at 1.5 times
    with pytest.raises(ValueError, match="did you mean 'friction'"):
        robustness(run, randomize={"fricton": [0.9, 1.1]})
    with pytest.raises(ValueError, match="randomize must be a dict of ranges"):
        robustness(run, randomize=[0.9, 1.1])


def test_an_environment_with_its_own_way_to_vary_is_stretched_about_the_middle(register, tmp_path):
    env_id = register("Windy-v0", "small_envs:Windy", max_episode_steps=5, fitness="episode_return")
    run = train(env_id, run_dir=tmp_path / "run", randomize={"wind": [1.0, 3.0]}, **TINY)
    found = robustness(run, episodes=3).scores["wind"]
    assert [score.mean for score in found] == [0.0, 5 * (1.5 + 2.5), 5 * (1.0 + 3.0), 5 * (0.5 + 3.5)]


@pytest.mark.parametrize(("share", "expected"), [(0, [0, 0]), (0.1, [0, 0]), (0.5, [1, 1]), (1, [1, 3])])
def test_a_range_of_whole_numbers_always_has_one(share, expected):
    with closing(es_envs.make("CartPoleBullet-v0")) as env:
        assert scaled_ranges({"latency": [1, 3]}, share, env)["latency"] == expected


def test_the_command_line_prints_a_table_and_writes_a_page(run, tmp_path, capsys):
    page = tmp_path / "page.html"
    words = ["evaluate", str(run.directory), "--episodes", "4", "--robustness", str(page), "--quiet"]
    assert main(words) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert " ".join(head.split()) == "what varies range widest 0 times 0.5 times 1 times 1.5 times"
    assert [row.split()[0] for row in rows] == ["latency", "motor_strength", "all"]
    text = page.read_text(encoding="utf-8")
    assert "CartPoleBullet-v0: robustness" in text
    assert "from the same 4 starts" in text
    assert "Where the score falls" in text
    assert main([*words, "--json", "--randomize", "mass=[0.5,2]"]) == 0
    assert list(json.loads(capsys.readouterr().out)["scores"]) == ["mass"]
    assert main([*words, "--episodes", "1"]) == 0
    content = Page(page)
    assert "from the same 1 start;" in content.text
    assert {*content.chart("fitness")["marks"][0]["low"]} == {None}, "one episode has no interval"
    assert main([*words[:-2], str(tmp_path / "page.txt")]) == 2
    assert "must end in .html" in capsys.readouterr().err
    assert main([*words[:-2], str(tmp_path / "nowhere" / "page.html")]) == 1
    assert "there is no folder" in capsys.readouterr().err


def test_another_fitness_can_score(run, tmp_path):
    found = robustness(run, episodes=2, fitness="episode_return", randomize={"mass": [0.5, 2]})
    assert found.fitness == "episode_return"
    assert [score.mean for score in found.scores["mass"]] == [score.returns for score in found.scores["mass"]]
    assert "fitness: episode_return" in Page(found.save(tmp_path / "page.html")).text


CUT_OFF = """
const card = document.querySelector(".card.scroll");
return card.scrollWidth - card.clientWidth;
"""
"""Pixels of the table that its card does not show."""
OUTSIDE = """
const frame = document.querySelector("#chart-fitness > svg > svg").getBoundingClientRect();
return [...document.querySelectorAll("#chart-fitness path.band")].filter((band) => {
  const box = band.getBoundingClientRect();
  return box.top < frame.top || box.bottom > frame.bottom;
}).length;
"""
"""Number of bands that leave their chart."""


@needs_chromium
@pytest.mark.slow
def test_a_browser_shows_whole_intervals_and_the_whole_table(tmp_path):
    ranges = {"friction": [0.6, 1.4], "mass": [0.5, 2], "latency": [0, 2]}
    policy = Checkpoint.pretrained("RaceTrack-v0")  # which also tells of success
    path = robustness(policy, episodes=3, randomize=ranges).save(tmp_path / "page.html")
    with chromium() as driver:
        visit(driver, path, 1000)
        assert driver.execute_script(OUTSIDE) == 0
        assert driver.execute_script(CUT_OFF) == 0
