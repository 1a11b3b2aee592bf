"""The native core on a real GPU: tiny engines, built once by its own builder."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for trt_nets, which the memory check uses, too


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(scope="session")
def native() -> Iterator[Any]:
    """The core, with TensorRT's builder kept: most tests build engines in this process."""
    module = pytest.importorskip("trt_workbench_native", reason="the native core is not installed")
    if not hasattr(module, "Runner"):
        pytest.skip("the native core was built without TensorRT's headers")
    status = module.cuda_status()
    if not status["ok"]:
        pytest.skip(f"no GPU: {status['error']}")
    found = module.tensorrt_status()
    if not found["available"]:
        pytest.skip(f"no TensorRT: {found['error']}")
    module.load_tensorrt()
    hold = module.BuilderHold()
    yield module
    hold.close()


@pytest.fixture(scope="session")
def plans(native: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bytes]:
    pytest.importorskip("onnx")
    import trt_nets as nets

    folder = tmp_path_factory.mktemp("engines")
    wanted: dict[str, tuple[Any, ...]] = {
        "fixed": (nets.linear(4),),
        "dynamic": (nets.linear("n"), nets.TWO_PROFILES, None, nets.SHARING),
        "exclusive": (nets.linear("n"), nets.TWO_PROFILES),
        "settled": (nets.linear("n"), [{"x": ((4, nets.WIDTH),) * 3}]),
        "part settled": (nets.pictures(), [{"images": ((2, 3, 32, 48), (2, 3, 32, 48), (8, 3, 32, 48))}]),
        "pair": (nets.pair(),),
        "recurrent": (nets.recurrent(),),
        "nonzero": (nets.nonzero(),),
        "elementwise": (nets.elementwise(), [{"x": ((1,), (1024,), (1 << 26,))}], None, nets.SHARING),
        "sum": (nets.weighted_sum(), [dict.fromkeys(("x", "h"), ((1,), (1024,), (100000,)))]),
        "pictures": (
            nets.pictures(),
            [{"images": ((1, 3, 32, 48), (2, 3, 32, 48), (8, 3, 32, 48))}],
            None,
            nets.SHARING,
        ),
        "refittable": (nets.linear(4), (), None, None, "full"),
        **{
            f"streaming {one} {other}": (nets.streaming(one, other), nets.streaming_profiles(one), None, nets.SHARING)
            for one in (0, 1)
            for other in (0, 1)
        },
        "streaming exclusive": (nets.streaming(1, 1), nets.streaming_profiles(1)),
        "streaming fixed": (nets.streaming(1, 1, 1, 4),),
        "large state": (
            nets.large_state(),
            [{"x": ((1, 1), (3, 1), (3, 1)), "h": ((2, 1, nets.LARGE), (2, 3, nets.LARGE), (2, 3, nets.LARGE))}],
            None,
            nets.SHARING,
        ),
        "expand": (nets.expand(), [{}], {"shape": ((1, 4), (2, 4), (8, 4))}),
    }
    built: dict[str, bytes] = {}

    def plan(name: str) -> bytes:
        if name not in built:
            built[name] = nets.build(native, folder, name, *wanted[name])
        return built[name]

    return plan


@pytest.fixture(scope="session")
def engines(native: Any, plans: Callable[[str], bytes]) -> Callable[[str], Any]:
    loaded: dict[str, Any] = {}

    def engine(name: str) -> Any:
        if name not in loaded:
            loaded[name] = native.Engine(plans(name))
        return loaded[name]

    return engine


@pytest.fixture(scope="session")
def torch() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not module.cuda.is_available():
        pytest.skip("this PyTorch sees no GPU")
    return module
