"""A new plugin from templates: it installs, passes its tests and trains before anything in it is changed."""

import importlib.util
import keyword
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from string import Template

import es_envs
from es_envs.arguments import require_one_of
from es_envs.text import file_name

# Where each template goes in the plugin's folder; a template may use the names of `_texts`.
_SHARED = {
    "gitignore": ".gitignore",
    "workflow.yml": ".github/workflows/test.yml",
    "README.md": "README.md",
    "init.py": "$package/__init__.py",
    "fitness.py": "$package/fitness.py",
    "test.py": "tests/test_$package.py",
}
_OWN = {
    "bullet": {
        "bullet_pyproject.toml": "pyproject.toml",
        "bullet_env.py": "$package/env.py",
        "rover.urdf": "$package/rover.urdf",
    },
    "gymnasium": {
        "gymnasium_pyproject.toml": "pyproject.toml",
        "gymnasium_env.py": "$package/env.py",
    },
}
KINDS = tuple(_OWN)


@dataclass(frozen=True, kw_only=True)
class NewPlugin:
    """A plugin that has just been written.

    Attributes:
        folder: its folder.
        package: its package, to import.
        env_id: its environment's id.
    """

    folder: Path
    package: str
    env_id: str


def new_plugin(name: str, *, kind: str | None = None, parent: Path | None = None) -> NewPlugin:
    """Write a plugin's distribution into a new folder of its name, completely or not at all.

    Args:
        name: the distribution's name, from which the package's and the environment's follow: ``my-rover`` has the
            package ``my_rover`` and the environment ``MyRover-v0``.
        kind: "bullet" (a model simulated by PyBullet) or "gymnasium" (plain Python); None for the first if pybullet
            is installed.
        parent: folder for the new folder (default: the current directory).

    Raises:
        ValueError: a distribution, package or environment cannot have this name, or has it already.
        FileExistsError: ``parent`` contains something of this name.
    """
    if kind is None:
        kind = "bullet" if importlib.util.find_spec("pybullet") else "gymnasium"
    require_one_of("kind", kind, KINDS)
    names = plugin_names(name, parent)
    model_row = f"| its model | `{names.package}/rover.urdf` |\n" if kind == "bullet" else ""
    write_plugin(names, {**_SHARED, **_OWN[kind]}, lambda _: {**names.texts, "model_row": model_row})
    return NewPlugin(folder=names.folder, package=names.package, env_id=names.env_id)


@dataclass(frozen=True, kw_only=True)
class Names:
    """Names of a new plugin, all of them free.

    Attributes:
        folder: its folder.
        package: its package.
        env_id: its environment's id.
        texts: these and more, as the templates call them.
    """

    folder: Path
    package: str
    env_id: str
    texts: Mapping[str, str]


def plugin_names(name: str, parent: Path | None = None) -> Names:
    """Return the names that follow from a distribution's; raises as ``new_plugin`` does."""
    package = _package_of(name)
    words = [word for word in re.split(r"[-_.]+", name) if word]
    title = "".join(word[0].upper() + word[1:] for word in words)
    env_id = _free_env_id(name, f"{title}-v0")
    folder = (parent or Path()) / name
    if folder.exists() or folder.is_symlink():
        raise FileExistsError(f"{folder} exists already: choose another name, or move it away")
    texts = {"name": name, "package": package, "env_id": env_id, "env_class": f"{title}Env"}
    return Names(folder=folder, package=package, env_id=env_id, texts=texts)


def write_plugin(names: Names, templates: Mapping[str, str], fill: Callable[[Path], Mapping[str, str]]) -> None:
    """Write a plugin's folder, completely or not at all.

    Args:
        names: its names.
        templates: where each template goes in the folder.
        fill: writes what is no template into the folder, and returns the texts of the templates.
    """
    folder = names.folder
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{names.package}-") as draft:
        whole = Path(draft) / folder.name
        whole.mkdir()
        texts = fill(whole)
        for template, place in templates.items():
            target = whole / Template(place).substitute(texts)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(filled(template, texts), encoding="utf-8")
        whole.rename(folder)


def filled(template: str, texts: Mapping[str, str]) -> str:
    """Return a template with its names replaced; what replaces them is not looked at again."""
    source = files("es_envs.scaffold") / "templates" / f"{template}.template"
    return Template(source.read_text(encoding="utf-8")).substitute(texts)


def _package_of(name: str) -> str:
    """Return the package of a distribution, if both names are valid and free."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?", name, re.ASCII | re.IGNORECASE):
        raise ValueError(
            f"{name!r} is not a name for a distribution: expected letters, digits, '-', '_' and '.', first and last a "
            "letter or digit, such as 'my-rover'"
        )
    if file_name(name) != name:  # whose characters are all right
        raise ValueError(f"{name!r}: Windows keeps this name for a device: choose another name")
    package = re.sub(r"[-_.]+", "_", name).lower()
    if not package.isidentifier() or keyword.iskeyword(package):
        raise ValueError(
            f"{name!r}: its package would be {package!r}, which Python cannot import: choose a name that begins with "
            "a letter and is not a Python keyword"
        )
    if package == "tests" or importlib.util.find_spec(package) is not None:
        raise ValueError(f"{name!r}: it would hide the existing package {package!r}: choose another name")
    try:
        installed = distribution(name)
    except PackageNotFoundError:
        return package
    raise ValueError(
        f"{name!r}: it would replace the installed distribution {installed.name} {installed.version}: choose another "
        "name"
    )


def _free_env_id(name: str, env_id: str) -> str:
    try:
        definition = es_envs.definition(env_id)
    except es_envs.UnknownEnvError:
        return env_id
    raise ValueError(
        f"{name!r}: the environment {env_id} exists already ({definition.entry_point}): choose another name"
    )
