"""Models in formats that a runtime lacks: simulated on the CPU, refused in one sentence elsewhere."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import onnx

from trt_workbench.backends.channel_scales import with_zero_points
from trt_workbench.backends.ort.common import CPU_PROVIDER
from trt_workbench.backends.ort.rewrites import optimised_model
from trt_workbench.core.documents import write_json
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.hashing import hash_document
from trt_workbench.core.kept import seal, sealed
from trt_workbench.core.workspace import cache_root
from trt_workbench.model.graph_types import computed_results
from trt_workbench.model.low_precision.simulate import simulated
from trt_workbench.model.opened import Model, checked_on_error, once
from trt_workbench.model.sanitize.sanitize import save_model

# Raised when the way of simulating changes, so that files made before are not taken again.
_RECIPE = 6


def runnable_model(model: Model, *, exact: bool = False) -> tuple[Model, dict[str, Any]]:
    """Return what ONNX Runtime's CPU provider loads in place of `model`, and the record of it.

    A model in FP8, MXFP8, NVFP4, bf16 or fp16 is rewritten, once for every model, into standard operators and fp32 with
    exactly the formats' values; int8 weights with a scale for each channel get their zero points written out; any other
    model is loaded as it is. So is one in fp16 where the provider's own kernels
    compute in it, as on some processors of ARM, and where `exact` asks for the digits of fp32.

    Raises:
        UsageProblem: the model cannot be simulated.
    """
    found = [row.name for row in model.facts.rows if not row.cpu]
    if not exact and _lacks_fp16(model):
        found.append("fp16")
    copied = _lacks_zero_points(model)
    if not found and not copied:
        return model, {}
    key = {
        "recipe": _RECIPE,
        "model_sha256": model.sha256,
        "onnx": str(onnx.__version__),
        "formats": found,
        "zero_points": copied,
    }
    folder = cache_root() / "simulated" / hash_document(key)
    path, record = folder / "model.onnx", folder / "simulation.json"
    files = (path, folder / "model.onnx.data", record)
    if not sealed(files):
        try:
            rewritten = model.load()
            if found:
                with checked_on_error(model):
                    rewritten = simulated(rewritten, ("bf16", *(["fp16"] if "fp16" in found else [])))
            with_zero_points(rewritten)
        except UsageProblem as error:
            raise UsageProblem(f"The model is in {' and '.join(found)} and cannot be simulated. {error}") from error
        save_model(rewritten, path)
        write_json(record, {"schema_version": 1, **key})
        seal(files)
    made = {"simulated": True, "simulated_formats": found, "simulated_file": str(path)} if found else {}
    return Model.open(path), {**made, **({"zero_points": "written out"} if copied else {})}


@once
def _lacks_zero_points(model: Model) -> bool:
    copy = onnx.ModelProto()
    copy.CopyFrom(model.proto)
    return with_zero_points(copy) > 0


@once
def _lacks_fp16(model: Model) -> bool:
    """Whether a model computes in fp16, and ONNX Runtime's CPU provider would compute a part of that in fp32.

    It casts what it has no kernel for, and drops the casts between: nothing is rounded to fp16 then.
    """
    own = computed_results(model.proto)
    if "fp16" not in own.values():
        return False
    import onnxruntime as ort

    def load(config: Any) -> None:
        ort.InferenceSession(model.path, config, providers=[CPU_PROVIDER], enable_fallback=0)

    ran = optimised_model(ort, "basic", load)
    wide = {name for name, kind in computed_results(ran).items() if kind != "fp16"} if ran else {*own}
    return any(own.get(name) != "fp32" for name in wide)


def refuse_formats(backend: str, model: Model, runs: Collection[str] = ()) -> None:
    """Raise UsageProblem if a model is in a format that a backend lacks.

    Args:
        backend: its name.
        model: the model.
        runs: formats that it has, of those that ONNX Runtime's CPU provider lacks.
    """
    lacking = [row for row in model.facts.rows if not row.cpu and row.name not in runs]
    if lacking:
        built = ""
        if all(row.tensorrt for row in lacking):
            release = max(row.tensorrt for row in lacking)
            built = f", and TensorRT {release} or newer builds it for GPUs that have the format"
        raise UsageProblem(
            f"The model is in {' and '.join(row.name for row in lacking)}, which {backend} does not have; ort-cpu runs "
            f"it simulated{built}: {model.path}"
        )
