"""Doctor: an examination of this installation and machine, with advice about what is missing or broken.

Anything that could crash a process (a library compiled for another processor, a graphics driver) is tried in a
separate process.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import es_envs
from es_core.config.checks import AUTO
from es_core.config.given import implied
from es_core.config.train_config import TrainConfig
from es_core.machine import memory_limit, usable_cores
from es_core.policies.compilation import bases, lasting_folder
from es_core.processes.forker import Forker
from es_core.strategies.by_name import STRATEGIES, require_strategy
from es_envs import EnvDefinition, PluginInfo, registry
from es_envs.display import has_display
from es_envs.distributions import distributions_of
from es_envs.requirements import bullet_distributions, missing
from es_envs.wheels import BULLET, how_to_get_bullet

_PATIENCE = 60  # seconds for a trial
_MARK = "es-envs found:"  # marks our line among the output of libraries
_GIGABYTE = 2**30
_ELSEWHERE = {"bullet", "docs", "pytest", "test"}  # extras with a line of their own, or for work on es-envs itself

_TORCH = """
import torch
found = {"version": torch.__version__, "threads": torch.get_num_threads(), "cuda": torch.version.cuda}
found["devices"] = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
assert float(torch.ones(2, 2).matmul(torch.ones(2, 2)).sum()) == 8
"""
_BLAS = """
import numpy, threadpoolctl
numpy.ones((64, 64)) @ numpy.ones((64, 64))
found = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
"""
_BULLET = """
from es_envs.bullet import pybullet
client = pybullet.connect(pybullet.DIRECT)
picture = pybullet.getCameraImage(8, 8, renderer=pybullet.ER_TINY_RENDERER, physicsClientId=client)[2]
found = {"numpy": bool(pybullet.isNumpyEnabled()) and hasattr(picture, "shape")}
"""
_EGL = """
import importlib.util
from es_envs.bullet import pybullet
plugin = importlib.util.find_spec("eglRenderer")
assert plugin, "this build of pybullet does not have it"
client = pybullet.connect(pybullet.DIRECT)
assert pybullet.loadPlugin(plugin.origin, "_eglRendererPlugin", physicsClientId=client) >= 0, "Bullet cannot use it"
found = {}
"""
_MUJOCO = """
import os
from es_envs.display import draw_unseen
draw_unseen()
import mujoco
model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
renderer = mujoco.Renderer(model, 8, 8)
renderer.update_scene(mujoco.MjData(model))
renderer.render()
found = os.environ.get("MUJOCO_GL")
"""
_FILM = """
import tempfile, imageio.v2, imageio_ffmpeg, numpy
with tempfile.TemporaryDirectory() as folder:
    name = folder + "/film.mp4"
    with imageio.v2.get_writer(name, format="FFMPEG", fps=5, codec="libx264", ffmpeg_log_level="error") as film:
        for _ in range(3):
            film.append_data(numpy.zeros((32, 32, 3), numpy.uint8))
    assert imageio_ffmpeg.count_frames_and_secs(name)[0] == 3, "it writes no films"
found = {"version": imageio_ffmpeg.get_ffmpeg_version(), "path": imageio_ffmpeg.get_ffmpeg_exe()}
"""


@dataclass(frozen=True)
class Finding:
    """Finding of the examination.

    Attributes:
        name: name of the examined item.
        status: "ok"; "missing", if it is optional; or "broken".
        found: description of what was found.
        advice: what to do; empty if there is nothing to do.
    """

    name: str
    status: Literal["ok", "missing", "broken"]
    found: str
    advice: str = ""


def examine() -> list[Finding]:
    """Examine this installation and machine. Takes seconds, since it tries everything."""
    parts = (_python, _machine, _libraries, _graphics, _extras, _plugins, _workers)
    return [finding for part in parts for finding in part()]


def _python() -> Iterator[Finding]:
    yield Finding("Python", "ok", f"{platform.python_version()} at {sys.executable}, {sysconfig.get_platform()}")
    lacking = list(missing("es-envs"))
    found = f"{version('es-envs')} at {Path(es_envs.__file__).parents[1]}"
    if lacking:
        yield Finding("es-envs", "broken", f"{found}, without {', '.join(lacking)}", _install(*lacking))
    else:
        yield Finding("es-envs", "ok", found)


def _machine() -> Iterator[Finding]:
    cores, all_cores = usable_cores(), os.cpu_count() or 1
    less = " (affinity or control group exclude the others)" if cores < all_cores else ""
    yield Finding("cores", "ok", f"{cores} of {all_cores} usable{less}: as many workers by default")
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        limit = memory_limit()
        bounded = f", of which this control group may use {limit / _GIGABYTE:.1f} GB" if limit else ""
        yield Finding("memory", "ok", f"{total / _GIGABYTE:.1f} GB{bounded}")
    shared = Path("/dev/shm")  # noqa: S108  (it is only measured)
    if shared.is_dir():
        free = shutil.disk_usage(shared).free
        yield Finding(str(shared), "ok", f"{free / _GIGABYTE:.2f} GB free (training needs none of it)")
    folder = Path.cwd()
    room = f"{shutil.disk_usage(folder).free / _GIGABYTE:.1f} GB free in {folder}"
    if os.access(folder, os.W_OK):
        yield Finding("run folders", "ok", room)
    else:
        advice = "work in a folder that is writable for you, or give --run-dir"
        yield Finding("run folders", "missing", f"{room}, which is not writable", advice)
    yield from _compiled()


def _compiled() -> Iterator[Finding]:
    """Find the folder of machine code, whose name needs the compiler's library."""
    name = "compiled policies"
    try:
        kept = lasting_folder()
    except ImportError as error:
        yield Finding(name, "broken", f"llvmlite cannot be imported: {error}", _install("--force-reinstall", "numba"))
        return
    if kept is not None:
        yield Finding(name, "ok", f"are kept in {kept}")
        return
    tried = ", ".join(map(str, bases()))
    found = f"every command compiles anew, some seconds each: none of these can be written: {tried}"
    yield Finding(name, "missing", found, "set NUMBA_CACHE_DIR to a folder that can be written")


def _libraries() -> Iterator[Finding]:
    yield from _tried("numpy", _BLAS, _blas, version("numpy"), _install("--force-reinstall", "numpy"))
    advice = f"{_install('--force-reinstall', 'imageio-ffmpeg')}; a film needs a program ffmpeg with libx264"
    yield from _tried("ffmpeg", _FILM, lambda found: f"{found['version']} at {found['path']}", "", advice)
    try:
        torch = version("torch")
    except PackageNotFoundError:
        needed = "only torch modules, CUDA, the vector pool, export and Stable-Baselines3 need it"
        yield Finding("torch", "missing", needed, _install("es-envs[torch]"))
    else:
        yield from _tried("torch", _TORCH, _cuda, torch, "reinstall it: https://pytorch.org/get-started/locally/")


def _blas(pools: list[dict[str, Any]]) -> str:
    used = [f"{pool['internal_api']} {pool['version']}, {pool['num_threads']} threads" for pool in pools]
    return f"{version('numpy')}; BLAS: {'; '.join(used) or 'none whose threads can be counted'} (policies use one)"


def _cuda(found: dict[str, Any]) -> str:
    devices = ", ".join(found["devices"]) or "no CUDA device"
    return f"{found['version']}, {found['threads']} threads; {devices}"


def _graphics() -> Iterator[Finding]:
    yield from _bullet()
    yield from _mujoco()
    yield from _pygame()
    if has_display():
        yield Finding("display", "ok", "`es-envs watch` can open a window")
    else:
        yield Finding("display", "missing", "`es-envs watch` needs one, DISPLAY is not set", "use `es-envs record`")


def _bullet() -> Iterator[Finding]:
    found = bullet_distributions()
    bullet = " and ".join(f"{name} {version(name)}" for name in found)
    failed, drawn = _try(_BULLET)
    remove = f"pip uninstall -y {' '.join(found or BULLET)}"
    if not found and failed:
        yield Finding("Bullet", "missing", "only environments in Bullet need it", how_to_get_bullet())
        return
    if failed:
        yield Finding("Bullet", "broken", f"{bullet}: {failed}", f"`{remove}`; then {how_to_get_bullet()}")
        return
    if len(found) > 1:
        both = f"{bullet} contain the same files: the one that was installed last works, until the other is removed"
        yield Finding("Bullet", "broken", both, f"`{remove}`; then {how_to_get_bullet()}")
    elif drawn["numpy"]:
        yield Finding("Bullet", "ok", bullet)
    else:
        slower = "built without numpy: steps are as fast, most pictures take 1.2 to 2.4 times as long"
        yield Finding("Bullet", "ok", f"{bullet}, {slower}")
    failed, _ = _try(_EGL)
    if failed:
        advice = "nothing: the software renderer does the same; or install libEGL (Debian: libegl1)"
        yield Finding("EGL", "missing", f"renderer='egl' would not work: {failed}", advice)
    else:
        yield Finding("EGL", "ok", "renderer='egl' can be used")


def _mujoco() -> Iterator[Finding]:
    if find_spec("mujoco") is None:
        return
    failed, renderer = _try(_MUJOCO)
    if failed:
        advice = "install libEGL (Debian: libegl1, libegl-mesa0) or OSMesa (libosmesa6), or set MUJOCO_GL"
        yield Finding("MuJoCo", "missing", f"{version('mujoco')}, which draws nothing here: {failed}", advice)
    else:
        yield Finding("MuJoCo", "ok", f"{version('mujoco')}, draws by {renderer or 'the display'}")


def _pygame() -> Iterator[Finding]:
    found = sorted(distributions_of("pygame"))
    if len(found) > 1:
        both = " and ".join(f"{name} {version(name)}" for name in found)
        again = f"pip uninstall -y {' '.join(found)} && {_install('pygame-ce')}"
        yield Finding("pygame", "broken", f"{both} overwrite each other's files", again)


def _extras() -> Iterator[Finding]:
    base, extras = set(missing("es-envs")), distribution("es-envs").metadata.get_all("Provides-Extra") or []
    extras = [extra for extra in extras if extra not in _ELSEWHERE]
    lacking = {
        extra: [text for text in dict.fromkeys(missing("es-envs", extra)) if text not in base] for extra in extras
    }
    installed = [extra for extra in extras if not lacking[extra]]
    if installed:
        yield Finding("extras", "ok", ", ".join(installed))
    if len(installed) < len(extras):
        without = {extra: f"{extra} (without {', '.join(texts)})" for extra, texts in lacking.items() if texts}
        yield Finding("other extras", "missing", ", ".join(without.values()), _install(f"es-envs[{','.join(without)}]"))


def plugins() -> list[PluginInfo]:
    """The plugins, with errors of definitions whose faults are visible without importing anything."""
    return [_examined(plugin) if plugin.status == "active" else plugin for plugin in es_envs.plugins()]


def _examined(plugin: PluginInfo) -> PluginInfo:
    definitions = [definition for definition in map(es_envs.definition, plugin.ids) if definition.plugin == plugin.name]
    faults = dict.fromkeys(fault for definition in definitions for fault in _faults(definition))
    return replace(plugin, status="error", error="; ".join(faults)) if faults else plugin


def _faults(definition: EnvDefinition) -> Iterator[str]:
    names = ("entry_point", "initializer", "behaviour", "vector_entry_point", "pretrained")
    targets = {name: getattr(definition, name) for name in names}
    targets |= {f"script {name!r}": target for name, target in definition.scripts.items()}
    fitnesses = definition.fitness_names()
    targets |= {f"fitness {name!r}": target for name, target in fitnesses.items()}
    for what, target in targets.items():
        module = str(target).partition(":")[0] if target and ":" in str(target) else ""
        if module and module != "final_info" and not _is_there(module):
            yield f"{definition.id}: there is no module {module!r} ({what}={target!r})"
    for name, target in fitnesses.items():
        if ":" not in target and target not in es_envs.fitness.FITNESSES:
            yield f"{definition.id}: there is no fitness {target!r} (fitness {name!r})"
    default = implied("strategy", definition.recommended)
    for strategy in {default: None, **definition.recommended_for}:
        try:
            config = TrainConfig.unresolved(definition.id, definition, strategy=strategy)
            if strategy in {AUTO, *STRATEGIES} or strategy not in {**registry.strategies(), **registry.trainers()}:
                require_strategy(config)
        except (ValueError, TypeError, es_envs.PluginError) as error:
            yield str(error)


def _is_there(module: str) -> bool:
    """Return True if a module can be found; in a package that is not imported, if the package can."""
    package = module.rpartition(".")[0]
    if package and package not in sys.modules:
        return _is_there(package)
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # its package is not a package, or it is half imported
        return False


def _plugins() -> Iterator[Finding]:
    for plugin in plugins():
        name = f"plugin {plugin.name}"
        found = f"{plugin.distribution} {plugin.version}: {plugin.error or ', '.join(plugin.ids)}"
        if plugin.status == "active":
            yield Finding(name, "ok", found)
        elif plugin.status == "disabled":
            yield Finding(name, "missing", found, "remove it from ES_ENVS_DISABLE_PLUGINS")
        elif plugin.status == "incomplete":
            yield Finding(name, "missing", found, "install that, if you need its environments")
        elif plugin.status == "clash":
            yield Finding(name, "broken", found, "uninstall one of them, or set ES_ENVS_DISABLE_PLUGINS")
        else:
            shows = "ES_ENVS_STRICT=1 python -c 'import es_envs; es_envs.env_ids()'"
            advice = f"repair or reinstall {plugin.distribution}; {shows} shows the traceback"
            yield Finding(name, "broken", found, advice)


def _workers() -> Iterator[Finding]:
    """Examine if the workers of each plugin's environments are forked from one process."""
    plugins = [plugin for plugin in es_envs.plugins() if plugin.status == "active" and plugin.ids]
    for plugin in plugins:
        definitions = [es_envs.definition(env_id) for env_id in plugin.ids]
        with Forker() as forker:
            forker.load(module for definition in definitions for module in registry.modules(definition))
            reason = forker.reason
        name = f"workers of {plugin.name}"
        if reason is None:
            yield Finding(name, "ok", "are forked from one process that has loaded their modules")
        else:
            slower = "nothing: training is the same, but starts later and takes more memory"
            yield Finding(name, "missing", f"are processes of their own, not forked: {reason}", slower)


def _tried(name: str, code: str, describe: Callable[[Any], str], known: str, advice: str) -> Iterator[Finding]:
    failed, found = _try(code)
    if failed:
        yield Finding(name, "broken", f"{known}: {failed}" if known else failed, advice)
    else:
        yield Finding(name, "ok", describe(found))


def _try(code: str) -> tuple[str, Any]:
    """Run code in a separate process; return its error, or an empty text, and its variable ``found``."""
    script = f"{code}\nimport json\nprint('\\n{_MARK}', json.dumps(found), flush=True)"
    try:
        done = subprocess.run(  # noqa: S603  (our own code, by our own interpreter)
            [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_PATIENCE} seconds", None
    if done.returncode == 0:
        (found,) = (line.removeprefix(_MARK) for line in done.stdout.splitlines() if line.startswith(_MARK))
        return "", json.loads(found)
    last = [line for line in done.stderr.splitlines() if line.strip()][-1:]
    return (last[0] if last and done.returncode > 0 else f"the process crashed (exit code {done.returncode})"), None


def _install(*words: str) -> str:
    return " ".join(["pip install", *(f"'{word}'" if "[" in word or ">" in word else word for word in words)])
