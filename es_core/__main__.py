"""The command ``es-envs``, also by ``python -m es_core``; Ctrl-C ends it with a sentence from its first moment on."""

import os
import signal
import sys


def main() -> int:
    """Run one command; returns the exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    from es_core.cli import main as run_command

    return run_command()


def _end(*_: object) -> None:
    """End this process, which has only begun to load its modules, and has nothing to put in order."""
    try:
        os.write(2, b"interrupted\n")
    finally:  # even if nobody reads it
        os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
