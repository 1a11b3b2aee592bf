"""Manifests of plans that no TensorRT has built."""

from typing import Any

from pydantic import TypeAdapter

from trt_workbench.core.hashing import hash_bytes
from trt_workbench.engine.manifest import EngineFile, GpuIdentity, Manifest, ModelFile


def manifest_of(plan: bytes, **changes: Any) -> Manifest:
    """Make the manifest of a plan."""
    values: dict[str, Any] = {
        "created_at": "2026-01-01T00:00:00+00:00", "cache_key": "k", "tensorrt_version": "10.16.1",
        "cuda_version": "13.0", "driver_version": "580.1", "workbench_version": "0.1.0", "native_version": "0.1.0",
        "engine": EngineFile(sha256=hash_bytes(plan), size_bytes=len(plan)),
        "model": ModelFile(file="m.onnx", sha256="aa", size_bytes=3, metadata={"names": "{}"}),
        "gpu": GpuIdentity(name="NVIDIA Test", uuid="GPU-1", compute_capability="9.0"),
        "options": {}, "inputs": (), "outputs": (), "layer_count": 1, "build_s": 0.1,
    }  # fmt: skip
    return TypeAdapter(Manifest).validate_python(values | changes)
