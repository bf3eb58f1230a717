"""The report of a run: what is on its page, and, in a real browser, how that behaves."""

import contextlib
import json
import os
import re
import shlex
import shutil
from pathlib import Path

import imageio.v2 as imageio
import numpy as np
import pytest
from browser import BITES, Page, asked, chromium, console, needs_chromium, visit
from conftest import TINY, registered

from es_core import CheckpointError, Run, TrainConfig, report, train
from es_core.cli import main
from es_core.config.commands import train_command
from es_core.runs.run_folder import lock

PLAY = """
const film = document.querySelector("video[src^=data]"), done = arguments[0];
film.ontimeupdate = () => { if (film.currentTime > 0.1) done(film.currentTime); };
film.play();
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of a few generations, with films of all kinds, one of them too large for the page."""
    folder = tmp_path_factory.mktemp("runs") / "a run"
    few = {
        "generations": 4,
        "population_size": 8,
        "max_episode_steps": 150,
        "eval_episodes": 4,
        "eval_budget": None,
        "confirm_episodes": 4,
    }
    how = {"seed": 5, "sigma": 0.02, "eval_every": 2, "workers": 1, "progress": False}
    run = train("CartPoleBullet-v0", run_dir=folder, **few, **how)
    (folder / "videos" / "film-1.mp4").write_bytes(b"no film")  # a real one is where a browser plays it
    frames = [np.full((24, 32, 3), shade, np.uint8) for shade in (0, 128, 255)]
    imageio.mimwrite(folder / "videos" / "shades.gif", frames)
    with (folder / "videos" / "long one.mp4").open("wb") as file:
        file.truncate(50_000_000)
    return run


@pytest.fixture(scope="module")
def page(run):
    return run.report()


def copy(run, tmp_path, **changed):
    """The folder of a run once more, with other values in its config.json."""
    folder = Path(shutil.copytree(run.directory, tmp_path / "copy", ignore=shutil.ignore_patterns("*.mp4")))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changed}))
    return folder


def test_a_page_holds_curves_films_settings_versions_and_commands(run, page):
    assert page == run.directory / "report.html"
    content = Page(page)
    stats = run.history
    assert content.data["grids"]["run"]["generations"] == [0, 1, 2, 3, 4]
    assert content.data["grids"]["run"]["steps"] == [each.total_steps for each in stats]
    band, median, mean, nothing, random, goal, centre, confirmed = content.chart("fitness")["marks"]
    assert mean["values"][:-1] == pytest.approx([each.fitness_mean for each in stats[:-1]], rel=1e-5)
    assert mean["values"][-1] is None
    assert median["values"][0] == pytest.approx(stats[0].fitness_median, rel=1e-5)
    assert (band["low"][1], band["high"][1]) == pytest.approx((stats[1].fitness_min, stats[1].fitness_max))
    baselines = {name: score.mean for name, score in stats[0].baselines.items()}
    assert {mark["label"]: mark["rule"] for mark in (nothing, random)} == pytest.approx(baselines, rel=1e-5)
    assert goal["rule"] == run.config.solved_at
    assert [value is None for value in centre["values"]] == [False, True, False, True, False]
    assert centre["low"][0] <= centre["values"][0] <= centre["high"][0]
    assert confirmed["values"][0] == pytest.approx(stats[0].confirmation.mean, rel=1e-5)
    assert {"length", "step", "agreement", "speed"} <= {chart["name"] for chart in content.data["charts"]}

    for text in ("solved_at", "Discrete(2)", "Chosen for this run", "numpy 2", stats[-1].parameter_hash):
        assert text in content.text
    assert f"es-envs train --config '{run.directory / 'config.json'}'" in content.text
    assert f"es-envs record '{run.directory}'" in content.text
    assert all(each.get("aria-label") for each in content.attributes("video"))
    assert all(each["alt"] for each in content.attributes("img"))
    buttons = [each for each in content.attributes("button") if "copy" in each.values()]
    assert all(each["aria-label"].startswith("copy the command: ") for each in buttons)
    sources = [each["src"] for tag in ("video", "img") for each in content.attributes(tag)]
    assert sorted(source.partition(",")[0] for source in sources) == [
        "data:image/gif;base64",
        "data:video/mp4;base64",
        "videos/long%20one.mp4",
    ]


def test_the_command_on_the_page_makes_the_same_run_again(run, page, tmp_path):
    command = next(text for text in Page(page).texts if text.startswith("es-envs train"))
    assert main([*shlex.split(command)[1:], "--run-dir", str(tmp_path / "again"), "--workers", "1", "--quiet"]) == 0
    assert Run.open(tmp_path / "again").config == run.config


@pytest.mark.parametrize(
    ("env_id", "fields"),
    [
        ("RaceCar-v0", {"fitness": "distance", "env_kwargs": {"start_noise": 0.0}, "hidden_sizes": (), "seed": 7}),
        ("RaceCar-v0", {"strategy": "ars", "top_directions": 4, "observation_clip": 3.0, "max_steps": 10_000}),
        ("CartPole-v1", {"sigma_final": 0.01, "solved_at": None, "observation_normalization": True}),
        ("Pendulum-v1", {"strategy": "pgpe", "policy": "gru", "action_bins": ((-2.0, 0.0, 2.0),), "eval_every": 0}),
    ],
)
def test_the_command_that_makes_a_run_again_gives_all_its_settings(env_id, fields, tmp_path, monkeypatch):
    config = TrainConfig.for_env(env_id, **fields)
    (tmp_path / "config.json").write_text(json.dumps(config.to_json()), encoding="utf-8")
    given = []

    def begin(env, **_):
        given.append(env)
        raise ValueError("that is all")

    monkeypatch.setattr("es_core.run.train", begin)
    assert main(shlex.split(train_command(config, tmp_path, trusted=False))[1:]) == 2
    assert given == [config]


def test_names_from_users_and_plugins_are_shown_as_text(tmp_path):
    with registered(
        entry_point="small_envs:Scribbled",
        summary=f"{BITES}\x1b[31m",
        fitnesses={BITES: "episode_length"},
        kwargs={"fault": None},
    ) as definition:
        made = train(definition.id, run_dir=tmp_path / "a'b\"<script>", env_kwargs={"where": BITES}, **TINY)
        path = made.report(tmp_path / "page.html")
    content = Page(path)
    assert content.scripts == 2
    assert not content.attributes("img")
    assert not content.attributes("iframe")
    assert '<iframe src="https://example.org"></iframe>' in content.text
    assert "\x1b" not in path.read_text()
    for text in (BITES, "Another measure", "a'\"'\"'b"):
        assert text in content.text
    assert content.chart(f"fitness-{BITES}")["title"] == BITES


def test_a_run_without_generations_or_environment_has_a_page(run, tmp_path):
    folder = copy(run, tmp_path, env_id="<b>Gone-v0")
    (folder / "metrics.jsonl").unlink()
    (folder / "sessions.jsonl").write_text('{"generation": 0}\nnonsense\n[1]\n')
    content = Page(report(folder))
    assert content.data["charts"] == []
    for text in ("no generation is finished", "<b>Gone-v0", "not installed here. To see what is: copy es-envs list",
                 "does not say", "es-envs resume"):  # fmt: skip
        assert text in content.text
    assert "--film" not in content.text


def test_the_page_says_what_to_do_now(run, page, tmp_path):
    """More, where a goal was missed; what advice says; after an interruption, to go on; in training, to follow it."""
    folder = copy(run, tmp_path)
    shutil.rmtree(folder / "videos")
    more = (
        f"It has reached generations=4, and more may help. To continue: copy es-envs resume {folder} --generations 8 "
    )
    assert more in Page(report(folder)).text
    metrics = folder / "metrics.jsonl"
    first, *others = metrics.read_text().splitlines(keepends=True)
    stuck = [json.loads(first), *(json.loads(others[1]) for _ in range(30)), json.loads(others[-1])]
    stuck[0]["baselines"]["doing nothing"]["mean"] = 1e6
    lines = ({**line, "generation": k, "tied_pairs": 0.0} for k, line in enumerate(stuck))
    metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    text = Page(report(folder)).text
    assert "no better than doing nothing, 1e+06" in text
    assert re.search(rf"To start again, with that changed: copy es-envs train --config {folder}\S+ --sigma ", text)
    metrics.write_text("".join([first, *others[:2]]))
    assert f"To continue: copy es-envs resume {folder} " in Page(report(folder)).text
    with lock(folder):
        content = Page(report(folder)).text
    assert f"To keep this page up to date: copy es-envs report {folder} --follow " in content


def test_a_page_follows_a_run_until_it_ends(run, tmp_path, monkeypatch):
    folder, written = copy(run, tmp_path), []
    metrics = folder / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    metrics.write_text(lines.pop(0))

    def wait(_):
        """Let the run go on while the page waits for it."""
        content = Page(folder / "report.html")
        written.append(
            (content.data["grids"]["run"]["generations"][-1], "data-refresh" in content.attributes("html")[0])
        )
        assert f"To see its best policy so far: copy es-envs watch {folder} --live " in content.text
        if lines:
            with metrics.open("a") as file:
                file.write(lines.pop(0))
        else:
            training.close()

    monkeypatch.setattr("es_core.reports.run_report.time.sleep", wait)
    with contextlib.ExitStack() as training:
        training.enter_context(lock(folder))
        report(folder, follow=True)
    assert written == [(0, True), (1, True), (2, True), (3, True), (4, True)]
    assert "data-refresh" not in Page(folder / "report.html").attributes("html")[0]


def test_the_worst_and_the_best_start_come_with_their_commands(run, page):
    scores, seeds = run.history[-1].final_fitness, run.final_seeds
    assert len(set(scores)) > 1
    for score in (min(scores), max(scores)):
        assert f"es-envs record '{run.directory}' --seeds {seeds[scores.index(score)]} " in Page(page).text


def test_a_page_says_why_there_is_no_film(tmp_path):
    with registered() as definition:
        made = train(definition.id, run_dir=tmp_path / "run", **TINY)
        with pytest.warns(RuntimeWarning, match="cannot render"):
            path = made.report(film=True)
    assert "takes no render_mode argument" in Page(path).text
    assert "--generations 2" in Page(path).text, "it can go on, without a film"


def test_a_line_without_numbers_is_left_out_of_the_curves(run, tmp_path):
    folder = copy(run, tmp_path)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    lines[1] |= {"fitness_mean": None, "fitness_max": None, "sigma": None, "seconds": 0.0}
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    content = Page(report(folder))
    _, _, mean, *_ = content.chart("fitness")["marks"]
    assert [value is None for value in mean["values"]] == [False, True, False, False, True]
    assert content.chart("speed")["marks"][0]["values"][1] is None


def test_a_long_run_is_thinned_and_keeps_its_last_line(run, tmp_path):
    folder = copy(run, tmp_path)
    line = json.loads((folder / "metrics.jsonl").read_text().splitlines()[0])
    text = "\n".join(json.dumps({**line, "generation": generation}) for generation in range(1601))
    (folder / "metrics.jsonl").write_text(text + "\n")
    content = Page(report(folder))
    generations = content.data["grids"]["run"]["generations"]
    assert len(generations) == 801
    assert (generations[0], generations[-1]) == (0, 1600)
    assert "One generation in 2 is drawn" in content.text


def test_films_of_any_name_are_in_the_page(run, tmp_path):
    folder = copy(run, tmp_path)
    before = report(folder).read_text().count("data:video/mp4")
    (folder / "videos" / "Capital.MP4").write_bytes(b"film")
    try:
        Path(os.fsdecode(os.fsencode(folder / "videos") + b"/f\xfcr.mp4")).write_bytes(b"film")
    except OSError:
        pytest.skip("this file system has names in UTF-8 alone")
    assert report(folder).read_text().count("data:video/mp4") == before + 2


def test_a_film_that_is_a_link_stays_out_of_the_page(run, tmp_path):
    folder = copy(run, tmp_path)
    (tmp_path / "secret").write_bytes(b"private")
    (folder / "videos" / "evil.mp4").symlink_to(tmp_path / "secret")
    with pytest.raises(CheckpointError, match=r"evil\.mp4 is a link that leads out"):
        report(folder)
    run = Run.open(run.directory)
    run.directory = folder  # opened before the link was there
    assert "evil" not in run.report().read_text()


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda folder: (folder / "config.json").write_text("{"), CheckpointError, "config.json is damaged"),
        (lambda folder: (folder / "metrics.jsonl").write_text("{}\n{}\n"), CheckpointError, "line 1 is damaged"),
        (lambda folder: (folder / "config.json").unlink(), FileNotFoundError, "is not a run folder"),
    ],
)
def test_a_folder_without_an_intact_run_is_refused_in_a_sentence(spoil, error, message, run, tmp_path):
    folder = copy(run, tmp_path)
    (folder / "report.html").unlink(missing_ok=True)
    spoil(folder)
    with pytest.raises(error, match=message):
        report(folder)
    assert not (folder / "report.html").exists()


def test_names_in_a_run_from_elsewhere_are_data(run, tmp_path, capsys):
    folder = copy(run, tmp_path, policy="os:path")
    with pytest.raises(ValueError, match="trust=True"):
        report(folder)
    assert main(["report", str(folder)]) == 2
    assert "--trust-names" in capsys.readouterr().err
    assert report(folder, trust=True).exists()


def test_the_command_says_where_the_page_is(run, tmp_path, capsys):
    assert main(["report", str(run.directory), "-o", str(tmp_path / "p.html"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"path": str(tmp_path / "p.html")}
    assert main(["report", str(run.directory), str(tmp_path / "q.html"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"path": str(tmp_path / "q.html")}
    assert main(["report", str(run.directory), str(tmp_path / "q.html"), "-o", str(tmp_path / "p.html")]) == 2
    assert "the page is named twice" in capsys.readouterr().err
    assert main(["report", str(run.directory), "-o", str(tmp_path / "p.pdf")]) == 2
    assert "must end in .html" in capsys.readouterr().err
    assert main(["report", str(run.directory), "-o", str(tmp_path / "none" / "p.html")]) == 1
    assert "there is no folder" in capsys.readouterr().err


@pytest.fixture(scope="module")
def driver():
    with chromium() as driver:
        yield driver


def points(driver, chart, kind):
    """How many points each curve of a chart has, as drawn."""
    paths = driver.find_elements("css selector", f"#chart-{chart} path.{kind}")
    return [sum(path.get_attribute("d").count(letter) for letter in "ML") for path in paths]


def test_the_end_of_a_run_where_nothing_is_played_has_no_speed(register, tmp_path, capsys):
    env_id = register(max_episode_steps=5)
    run = train(env_id, run_dir=tmp_path / "run", **{**TINY, "eval_every": 0, "progress": True})
    assert run.history[-1].steps == 0
    assert "speed 0 steps" not in capsys.readouterr().err
    (speed,) = Page(run.report()).chart("speed")["marks"]
    assert [value is None for value in speed["values"]] == [False, True]


@needs_chromium
@pytest.mark.slow
def test_a_browser_draws_numbers_that_differ_little_with_labels_that_differ(driver, run, tmp_path):
    folder = copy(run, tmp_path)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        for name in ("mean", "median", "max", "min"):
            value = line[f"fitness_{name}"]
            line[f"fitness_{name}"] = value and 99_990 + value % 5
        line |= {"evaluation": None, "confirmation": None, "final": None, "baselines": {}, "solved": False}
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    visit(driver, report(folder))
    labels = driver.find_elements("css selector", "#chart-fitness svg > text[text-anchor=end]")
    texts = [label.text for label in labels if "\u202f" in label.text]
    assert len(texts) > 2
    assert len({*texts}) == len(texts)


@needs_chromium
@pytest.mark.slow
def test_a_browser_draws_every_chart_plays_the_film_and_asks_nobody(driver, run):
    (run.directory / "videos" / "film-1.mp4").unlink()
    page = run.report(run.directory / "with-film.html", film=True)
    assert len([each for each in Page(page).attributes("img") if each["src"].startswith("data:image/jpeg")]) == 2
    visit(driver, page)
    driver.find_element("css selector", ".fold summary").click()
    charts = [chart["name"] for chart in Page(page).data["charts"]]
    assert [figure.get_attribute("id") for figure in driver.find_elements("class name", "chart")] == [
        f"chart-{name}" for name in charts
    ]
    for axis in ("steps", "seconds", "generations"):
        driver.find_element("css selector", f"[data-axis={axis}]").click()
        # worst to best, median, mean, and the centre, which is evaluated in every second generation
        assert points(driver, "fitness", "line") == [0, 4, 4, 3]
        assert points(driver, "fitness", "band")[0] == 8
        assert driver.find_elements("css selector", "#chart-fitness .rule")
        assert all(any(points(driver, chart, "line")) for chart in charts)
    assert driver.find_elements("css selector", "video[src^='data:video/mp4'][poster^='data:image/png']")
    assert driver.execute_async_script(PLAY) > 0.1
    # Only the file that lies beside the page, and is no film.
    assert [line for line in console(driver) if "long%20one" not in line] == []
    assert {url for url in asked(driver) if "long%20one" not in url} == {page.as_uri()}


@needs_chromium
@pytest.mark.slow
def test_mouse_and_keyboard_read_the_charts_and_a_reload_keeps_the_view(driver, page):
    from selenium.webdriver import ActionChains, Keys

    def press(*keys):
        ActionChains(driver).send_keys(*keys).perform()

    def shown():
        return len(driver.find_elements("css selector", ".chart .cursor.shown"))

    visit(driver, page)
    svg, head = (driver.find_element("css selector", f"#chart-fitness {part}") for part in ("svg", ".legend li"))
    values = driver.find_elements("css selector", "#chart-fitness .legend b")
    at_the_end = [value.text for value in values]
    names = [name.text.split()[0] for name in driver.find_elements("css selector", "#chart-fitness text.name")]
    assert names == ["doing", "random"], "baselines have their names in the chart"
    assert (head.text, shown()) == ("at generation 4", 0)
    ActionChains(driver).move_to_element(svg).perform()
    assert head.text == "at generation 2"
    assert shown() > 1, "all charts in sight show the same generation"
    assert [value.text for value in values] != at_the_end
    ActionChains(driver).move_to_element(driver.find_element("tag name", "h1")).perform()
    assert (head.text, shown()) == ("at generation 4", 0)

    driver.execute_script("document.querySelector('[data-axis=steps]').focus()")
    press(Keys.SPACE)
    assert head.text.endswith("environment steps")
    driver.execute_script("document.querySelector('[data-axis=generations]').focus()")
    press(Keys.ENTER, Keys.TAB, Keys.TAB, Keys.TAB)  # the other two axes, then the first chart
    assert driver.switch_to.active_element == svg
    press(Keys.ARROW_LEFT)
    assert (head.text, shown() > 1) == ("at generation 3", True)
    said = driver.find_element("css selector", "[aria-live=polite]")
    assert said.get_property("textContent").startswith("at generation 3, population, worst to best ")
    press(Keys.ARROW_RIGHT)
    assert head.text == "at generation 4"

    driver.find_element("css selector", "[data-axis=seconds]").click()
    driver.find_element("css selector", ".fold summary").click()
    driver.find_element("id", "theme").click()
    driver.execute_script("scrollTo(0, 500)")
    driver.refresh()
    assert driver.find_element("css selector", "[aria-pressed=true]").text == "Time"
    assert driver.find_element("css selector", "#chart-norm svg path.line").is_displayed()
    assert driver.execute_script("return [document.documentElement.dataset.theme, scrollY]") == ["dark", 500]


@needs_chromium
@pytest.mark.slow
def test_a_page_fits_a_phone_and_a_dark_room(driver, page):
    def shade():
        return driver.execute_script("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g)[0]")

    shades = {}
    for scheme in ("light", "dark"):
        for width in (390, 1280):
            visit(driver, page, width, scheme)
            assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        shades[scheme] = int(shade())
    assert shades["dark"] < 60 < 200 < shades["light"]
    driver.find_element("id", "theme").click()
    assert int(shade()) == shades["light"]


@needs_chromium
@pytest.mark.slow
def test_no_name_on_a_page_runs_as_code(driver, tmp_path):
    with registered(summary=f"{BITES}\x1b[31m", fitnesses={BITES: "episode_length"}) as definition:
        made = train(definition.id, run_dir=tmp_path / "<script>", env_kwargs={"where": BITES}, **TINY)
        path = made.report(tmp_path / "page.html")
    visit(driver, path)
    assert driver.execute_script("return window.bitten") is None
    assert console(driver) == []
    assert asked(driver) == [path.as_uri()]
    send = "new Image().src = 'http://127.0.0.1:9/picture'; return fetch('http://127.0.0.1:9/').catch(String)"
    assert "Failed to fetch" in driver.execute_script(send)
    refused = [line for line in console(driver) if "Content Security Policy" in line]
    assert any("picture" in line for line in refused)
    assert any("connect" in line for line in refused)
    driver.execute_script("document.body.innerHTML = arguments[0]", BITES)
    assert driver.execute_script("return window.bitten") is None


@pytest.fixture(scope="module")
def repertoire(tmp_path_factory):
    """A run that fills a repertoire of three numbers."""
    pytest.importorskip("ribs")
    ranges = [["position", -5, 5], ["<b>speed</b>", -5, 5], ["angle", -5, 5], ["rate", -5, 5]]
    settings = {**TINY, "strategy": "map_elites", "strategy_options": {"ranges": ranges, "grid": [9, 7, 5, 1]}}
    return train("CartPole-v1", run_dir=tmp_path_factory.mktemp("runs") / "run", **settings)


def test_a_repertoire_has_a_map_for_each_pair_of_its_numbers(repertoire, tmp_path):
    page = repertoire.report(tmp_path / "page.html")
    assert [chart["name"] for chart in Page(page).data["charts"]][1:3] == ["length", "coverage"]
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg viewBox=") == 6 + 1  # and the palette
    assert "&lt;b&gt;speed&lt;/b&gt; and angle" in text
    found = repertoire.repertoire
    best = ",".join(map(str, found.cells[found.fitness.argmax()]))
    assert text.count(f"--cell {best}</code>") == 6
    assert f"record {repertoire.directory} --gallery 4x4" in text
    assert f"{len(found)} policies" in text


def test_a_run_of_another_strategy_has_no_map(run, page):
    assert "Repertoire" not in page.read_text(encoding="utf-8")


@needs_chromium
@pytest.mark.slow
def test_a_click_and_the_keyboard_choose_a_place_of_a_map(driver, repertoire):
    from selenium.webdriver import Keys

    visit(driver, repertoire.report())
    figure = driver.find_element("class name", "map")

    def shown():
        return figure.find_element("tag name", "code").text.rpartition(" ")[2]

    picture = figure.find_element("tag name", "svg")
    before = shown()
    for key in (Keys.ARROW_LEFT, Keys.ARROW_RIGHT, Keys.ARROW_UP, Keys.ARROW_DOWN):
        picture.send_keys(key)
    assert driver.find_element("id", "said").get_attribute("textContent").startswith(f"Cell {shown()}: fitness ")
    places = figure.find_elements("css selector", "[data-cell]")
    other = next(place for place in places if place.get_attribute("data-cell") not in {before, shown()})
    other.click()
    assert shown() == other.get_attribute("data-cell")
    assert len(figure.find_elements("class name", "chosen")) == 1
    assert console(driver) == []
