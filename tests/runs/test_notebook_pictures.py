"""What runs, scores, comparisons and films show in a notebook."""

import base64
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import TINY

from es_core import compare, record, train
from es_core.runs.course import course_picture

VOID = {"img", "source"}


class Tags(HTMLParser):
    """Checks that elements are nested, and keeps their text."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.text = [], [], ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return [train("CartPole-v1", run_dir=folder / f"<run {seed}>", seed=seed, **TINY) for seed in (0, 1)]


def test_a_run_shows_its_course_and_its_score(runs, monkeypatch):
    monkeypatch.chdir(runs[0].directory.parent)
    shown = Tags(runs[0]._repr_html_())
    assert {"svg", "polyline", "polygon", "table"} <= set(shown.tags)
    assert f"<run 0>environmentCartPole-v1state{runs[0].end}" in shown.text
    assert str(runs[0].best_score[1]) in shown.text


def test_a_course_shows_populations_or_scores_alone(runs):
    history = runs[0].history
    for part in ([replace(stats, evaluation=None) for stats in history], [history[-1]]):
        shown = course_picture(part)
        assert (shown.count("<polyline"), shown.count('<polyline points=""')) == (2, 1)
    assert "no generation yet" in Tags(course_picture([])).text


def test_scores_generations_and_comparisons_show_themselves_as_tables(runs):
    score = runs[0].best_score[1]
    assert f"episodes{score.episodes}" in Tags(score._repr_html_()).text
    assert "generation0population's fitness" in Tags(runs[0].history[0]._repr_html_()).text
    assert Tags(compare([run.directory for run in runs])._repr_html_()).tags.count("tr") == 2


@pytest.mark.parametrize(("name", "kind"), [("a.mp4", "video/mp4"), ("a.gif", "image/gif")])
def test_a_film_is_the_episodes_and_shows_itself(runs, tmp_path, name, kind):
    film = record(runs[0], tmp_path / name, width=64, height=48, workers=1)
    (episode,) = film
    assert episode.length > 0
    html = film._repr_html_()
    assert Tags(html).tags[0] == kind.partition("/")[0].replace("image", "img")
    data = html.partition(f"data:{kind};base64,")[2].partition('"')[0]
    assert base64.b64decode(data) == Path(tmp_path / name).read_bytes()
