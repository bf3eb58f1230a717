"""What is compiled: noise, and a step of a policy. Plain loops, which numba turns into machine code.

Sums are taken in one order, whatever the processor: inner loops run over outputs, so that they vectorise without
changing the order of a sum, nothing is contracted into fused operations, and no function of a mathematics library is
called. So equal arguments give equal bits on every x86-64 processor.

Nobody but the typed wrappers beside this file calls what is in it.
"""

from typing import Any

from numba import njit


def compiled(function: Any) -> Any:
    """Compile a function when it is first called; the machine code is kept on disk for the next process."""
    return njit(function, cache=True, nogil=True, error_model="numpy", fastmath=False)


# ---- Noise ----


# ---- Policies ----
