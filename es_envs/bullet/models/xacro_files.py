"""Xacro files: expanded to URDF by the package xacro, in a process of its own."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import es_envs
from es_envs.bullet.models.findings import UnreadableError
from es_envs.bullet.models.markup import MOST_BYTES

_SECONDS = 60.0
_MEMORY = 2_000_000_000  # bytes
_CHILD = """
import sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
    resource.setrlimit(resource.RLIMIT_FSIZE, ({file}, {file}))
except (ImportError, ValueError, OSError):
    pass
sys.path.append({root!r})
from es_envs.bullet.models.xacro_process import main
main()
"""


def expand(path: Path, packages: Mapping[str, Path], arguments: Mapping[str, str]) -> bytes:
    """Expand a xacro file to URDF.

    This evaluates the Python expressions that the file contains: name only files that you trust.

    Raises:
        UnreadableError: xacro is not installed, or cannot expand the file.
    """
    root = str(Path(es_envs.__file__).parents[1])
    code = _CHILD.format(memory=_MEMORY, file=MOST_BYTES + 1, root=root)
    request = {
        "file": str(path),
        "packages": {name: str(folder) for name, folder in packages.items()},
        "arguments": dict(arguments),
    }
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            done = subprocess.run(  # noqa: S603  (our own program)
                [sys.executable, "-I", "-c", code],
                input=json.dumps(request).encode(),
                stdout=output,
                stderr=errors,
                env=dict(os.environ),
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise UnreadableError("xacro", path, 0, f"xacro took more than {_SECONDS:.0f} s") from error
        errors.seek(0)
        output.seek(0)
        if done.returncode:
            printed = errors.read(100_000).decode(errors="replace").strip().splitlines()
            raise UnreadableError("xacro", path, 0, printed[-1][:1000] if printed else f"exit code {done.returncode}")
        return output.read(MOST_BYTES)
