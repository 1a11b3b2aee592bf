"""What unit tests share."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from trt_workbench.core import workers


@pytest.fixture(scope="module", autouse=True)
def _forked_workers(forking: Any) -> Iterator[None]:
    """Start workers fast."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "subprocess", forking)
        yield


@pytest.fixture
def compiled_graphs(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Let torch.compile make graphs as always, but no code of them, which takes long; return how many it has made."""
    torch = pytest.importorskip("torch")
    from torch._dynamo.utils import counters

    real = torch.compile

    def compile_without_code(model: Any, **settings: Any) -> Any:
        return real(model, **{**settings, "mode": None, "backend": "eager"})

    monkeypatch.setattr(torch, "compile", compile_without_code)
    torch.compiler.reset()
    counters.clear()
    return lambda: counters["stats"]["unique_graphs"]
