"""Models made on the spot, and a double of the native core where a test is about what surrounds a build."""

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.onnx_text import parse_onnx, write_onnx

from trt_workbench.engine import native


@pytest.fixture
def quantized_model(tmp_path: Path) -> Path:
    """Write y = x [1, 4], rounded to quarters by a QuantizeLinear and a DequantizeLinear node."""
    graph = """g (float[1,4] x) => (float[1,4] y) <float scale = {0.25}, int8 zero = {0}> {
      q = QuantizeLinear(x, scale, zero) y = DequantizeLinear(q, scale, zero)
    }"""
    return write_onnx(tmp_path / "quantized.onnx", graph, opset=13)


@pytest.fixture(autouse=True)
def _own_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))


@pytest.fixture
def make_model(tmp_path: Path) -> Callable[..., Path]:
    """Write y = x @ w; `batch` is a number or a symbol, `external` puts the weights into a file of their own."""

    def make(name: str = "model.onnx", batch: int | str = 1, *, external: bool = False, scale: float = 1.0) -> Path:
        graph = f"g (float[{batch},4] x) => (float[{batch},4] y) {{ y = MatMul(x, w) }}"
        model = parse_onnx(graph, {"w": np.eye(4, dtype=np.float32) * scale})
        helper.set_model_props(model, {"names": "{0: 'cube'}", "imgsz": "[4, 4]"})
        path = tmp_path / "models" / name
        path.parent.mkdir(exist_ok=True)
        data = f"{path.name}.data" if external else None
        if data:
            (path.parent / data).unlink(missing_ok=True)
        onnx.save(model, path, save_as_external_data=external, location=data, size_threshold=0)
        return path

    return make


class NativeDouble(ModuleType):
    """What the engine layer asks of the native core. Plans are bytes that follow from model and options."""

    def __init__(self) -> None:
        super().__init__(native.MODULE)
        self.builds: list[tuple[str, SimpleNamespace]] = []
        self.version = "10.16.1"
        self.gpu = {"name": "NVIDIA Test", "uuid": "GPU-1", "compute_capability": "9.0"}
        self.layers: list[dict[str, str]] = []
        self.before_build: Callable[[], None] = lambda: None
        self.BuildOptions = SimpleNamespace
        self.Profile = SimpleNamespace
        self.Calibration = SimpleNamespace
        self.Engine = lambda data, **_: SimpleNamespace(data=data, tensors=())

    def build_info(self) -> dict[str, str]:
        return {"version": "0.1.0", "cuda": "13.0"}

    def tensorrt_status(self, _: str | None = None) -> dict[str, Any]:
        return {"available": True, "version": self.version, "error": None}

    load_tensorrt = tensorrt_status

    def set_log_level(self, level: str) -> None:
        assert level in ("error", "warning", "info", "verbose")

    def drain_log(self) -> list[tuple[str, str]]:
        return []

    def cuda_status(self) -> dict[str, Any]:
        return {"ok": True, "error": ""}

    def devices(self, _: int | None = None) -> list[dict[str, Any]]:
        return [self.gpu]

    def inspect_engine(self, _: object) -> dict[str, str]:
        return {"layers_json": json.dumps({"Layers": self.layers})}

    def build_engine(self, model: str, options: SimpleNamespace, _: object) -> SimpleNamespace:
        self.before_build()
        self.builds.append((model, options))
        digest = hashlib.sha256(Path(model).read_bytes()).hexdigest()
        return SimpleNamespace(
            plan=f"plan {digest} {options.fp16} {len(self.builds)}".encode(),
            timing_cache=(options.timing_cache or b"") + b"t",
            build_s=1.5,
            layer_count=1,
            skipped_tactics=0,
            warnings=["slow", "slow"],
            inputs=[SimpleNamespace(name="x", dtype="float32", shape=[1, 4])],
            outputs=[SimpleNamespace(name="y", dtype="float32", shape=[1, 4])],
            merge_timing_caches=b"+".join,
        )


@pytest.fixture
def native_double(monkeypatch: pytest.MonkeyPatch) -> Iterator[NativeDouble]:
    double = NativeDouble()
    monkeypatch.setitem(sys.modules, native.MODULE, double)
    monkeypatch.setattr("trt_workbench.engine.target.driver_version", lambda: "580.1")
    native.native.cache_clear()
    yield double
    native.native.cache_clear()
