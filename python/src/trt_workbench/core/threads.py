"""How the threads of OpenMP, which PyTorch computes with on a processor, wait for work."""

from __future__ import annotations

import os

VARIABLE = "OMP_WAIT_POLICY"


def let_idle_threads_sleep() -> None:
    """Make OpenMP's threads sleep while they wait, unless the user says otherwise; call it before PyTorch is imported.

    By default they spin. Where another process wants the same processors, everybody then waits for spinning threads:
    on two busy processors a forward pass of 50 ms took 1.4 s. ONNX Runtime's threads do not spin here either.
    """
    os.environ.setdefault(VARIABLE, "PASSIVE")


def wait_policy() -> str:
    """Return what is set for this process, for the record."""
    return os.environ.get(VARIABLE, "default")
