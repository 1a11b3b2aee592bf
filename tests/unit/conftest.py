"""What unit tests share."""

from collections.abc import Iterator
from typing import Any

import pytest

from trt_workbench.measure import worker_process


@pytest.fixture(scope="module", autouse=True)
def _forked_workers(forking: Any) -> Iterator[None]:
    """Start workers fast."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_process, "subprocess", forking)
        yield
