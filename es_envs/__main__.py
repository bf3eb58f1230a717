"""``python -m es_envs`` is the command ``es-envs``, as ``python -m es_core`` is."""

import runpy

if __name__ == "__main__":
    runpy.run_module("es_core", run_name="__main__", alter_sys=True)
