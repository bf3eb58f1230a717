"""The text of the gallery, from definitions and from the JSON file beside each film (``python docs/gallery.py``)."""

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from definitions import ours

from es_core.formatting import figures
from es_core.runs.scores import Evaluation
from es_envs import EnvDefinition

FILMS = Path(__file__).parent / "gallery"
ENTRY = """## {id}

`````{{container}} exhibit
```{{raw}} html
<video loop muted playsinline controls preload="none" width="360" height="270" src="_static/{id}.mp4"
poster="_static/{id}.jpg" aria-label="{id}: {summary}"></video>
```
````{{container}} facts
[{summary}](generated/environments.md#{anchor}).

{facts}
````
`````

```sh
{commands}
```
"""


SHEET = """```{{raw}} html
<div class="sheet">
{cells}
</div>
```
"""
CELL = (
    '<a href="#{anchor}"><img src="_static/{id}.jpg" width="300" height="189" loading="lazy" alt=""><b>{id}</b> '
    "{summary}</a>"
)


def write(folder: Path) -> None:
    """Write gallery.md: a still of each film, and then a part for each."""
    folder.mkdir(exist_ok=True)
    by_plugin = sorted(ours(), key=lambda definition: str(definition.plugin))
    films = [(definition, FILMS / f"{definition.id}.json") for definition in by_plugin]
    cells = "\n".join(
        CELL.format(id=definition.id, anchor=definition.id.lower(), summary=escape(definition.summary))
        for definition, path in films
        if path.exists()
    )
    entries = [
        entry(definition, json.loads(path.read_text(encoding="utf-8"))) for definition, path in films if path.exists()
    ]
    (folder / "gallery.md").write_text("\n".join([SHEET.format(cells=cells), *entries]), encoding="utf-8")


def entry(definition: EnvDefinition, described: Mapping[str, Any]) -> str:
    """An environment's part of the page."""
    score, idle, random = (
        Evaluation.from_json(described[name]) for name in ("score", "doing nothing", "random actions")
    )
    training, generation = described["training"], described["shots"][0]["players"][0]["generation"]
    solved = "" if definition.solved_at is None else f" (solved at {figures(definition.solved_at)})"
    if definition.pretrained:
        taken = "comes with the plugin"
    elif training["solved"]:
        taken = f"generation {generation}, which solved the task"
    else:
        taken = f"generation {generation}, the best of its run"
    settings = [f"`{name}={value}`" for name, value in definition.recommended.items()]
    facts = {
        f"score{solved}": score,
        "doing nothing": _beside(score, idle),
        "random actions": _beside(score, random),
        "policy": f"{taken}; {figures(training['steps'])} steps of training",
        "recommended settings": ", ".join(settings) or "the defaults",
    }
    return ENTRY.format(
        id=definition.id,
        anchor=definition.id.lower(),
        summary=definition.summary,
        facts="\n".join(f"{name}\n: {text}\n" for name, text in facts.items()),
        commands=commands(definition, described),
    )


def commands(definition: EnvDefinition, described: Mapping[str, Any]) -> str:
    """The commands that evolve a policy and make the film."""
    name, speed, episodes = definition.id, described["speed"], len(described["shots"])
    film = f"{name}.mp4{f' --speed {speed:g}' * (speed != 1)}{f' --episodes {episodes}' * (episodes != 1)}"
    given = "".join(
        f" --{option.replace('_', '-')} {','.join(map(str, value)) if isinstance(value, list) else value}"
        for option, value in described["training"]["given"].items()
    )
    if definition.pretrained:
        return (
            f"es-envs train {name}{given}\nes-envs watch {name} --pretrained\nes-envs record {name} {film} --pretrained"
        )
    return f"es-envs train {name}{given} --run-dir {name}\nes-envs record {name} {film}"


def _beside(score: Evaluation, other: Evaluation) -> str:
    """Another policy's mean; what is less than a ten-thousandth of the score is 0, not a rounding error's digits."""
    return "0.00" if abs(other.mean) < 1e-4 * abs(score.mean) else figures(other.mean, other.interval)
