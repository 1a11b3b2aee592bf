"""Waiting for what another process or thread does."""

import time
from collections.abc import Callable


def wait_until(happened: Callable[[], object]) -> None:
    """Wait as long as pytest lets a test take: how busy a machine is decides no test."""
    while not happened():
        time.sleep(0.01)
