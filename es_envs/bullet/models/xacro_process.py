"""Expands a xacro file in a process of its own: the request comes on stdin, the document goes to stdout.

Xacro evaluates Python expressions of the file. So only files that you name yourself get here, and this process has
limits of time and memory; it is no protection from a file that means harm.
"""

import json
import sys
import types
from pathlib import Path

from es_envs.bullet.models.paths import find_package


def main() -> None:
    """Expand the file that stdin names."""
    request = json.load(sys.stdin)
    file = Path(request["file"])
    packages = {name: Path(folder) for name, folder in request["packages"].items()}

    def get_package_share_directory(name: str) -> str:
        folder = find_package(name, file, packages)
        if folder is None:
            raise LookupError(f"there is no package {name!r} at hand: give packages={{{name!r}: folder}}")
        return str(folder)

    # Where ROS is not installed, xacro asks this module for packages; where it is, ours knows more.
    packages_module = types.ModuleType("ament_index_python.packages")
    packages_module.get_package_share_directory = get_package_share_directory  # type: ignore[attr-defined]
    sys.modules["ament_index_python"] = types.ModuleType("ament_index_python")
    sys.modules["ament_index_python.packages"] = packages_module
    try:
        import xacro
    except ImportError:
        sys.exit('the package xacro is not installed: `pip install "es-envs[xacro]"`')
    try:
        document = xacro.process_file(str(file), mappings=request["arguments"])
    except Exception as error:  # noqa: BLE001  (whatever an expression raises)
        sys.exit(f"{type(error).__name__}: {' '.join(str(error).split())}")
    sys.stdout.write(document.toprettyxml(indent=" "))
