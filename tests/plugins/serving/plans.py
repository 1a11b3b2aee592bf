"""Plans with their manifests, as `build-engine` and `verify` leave them."""

from pathlib import Path
from typing import Any

from tests.unit.engine.manifests import manifest_of

from trt_workbench.core.hashing import hash_bytes
from trt_workbench.core.verification import Verification
from trt_workbench.engine.manifest import GpuIdentity, Tensor, write_manifest

INPUTS = (Tensor(name="images", dtype="float32", shape=(-1, 3, -1, 320)),)
OUTPUTS = (Tensor(name="output0", dtype="float16", shape=(-1, 300, 6)),)
PROFILE = "images:1x3x320x320/4x3x640x320/12x3x640x320"


def plan(path: Path, capability: str = "9.0", verdict: str = "right", **changes: Any) -> Path:
    data = f"plan for {capability}".encode()
    path.write_bytes(data)
    verification = Verification(
        verdict=verdict, mode="full", engine_sha256=hash_bytes(data), gpu="G", tensorrt_version="10.16.1",
        workbench_version="0", verified_at="2026-01-01T00:00:00+00:00",
    )  # fmt: skip
    gpu = GpuIdentity(name=f"GPU {capability}", uuid=None, compute_capability=capability)
    given = {"inputs": INPUTS, "outputs": OUTPUTS, "profiles": (PROFILE,), "gpu": gpu, "verification": verification}
    write_manifest(path, manifest_of(data, **(given | changes)))
    return path
