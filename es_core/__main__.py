"""``python -m es_core`` is the command ``es-envs``."""

import sys

from es_core.cli import main

if __name__ == "__main__":
    sys.exit(main())
