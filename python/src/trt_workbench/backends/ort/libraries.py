"""Whether ONNX Runtime's GPU providers can be opened here: which library, of which version, is missing."""

from __future__ import annotations

import ctypes
import functools
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trt_workbench.backends.base import Availability
from trt_workbench.backends.ort.common import CUDA_PROVIDER, TENSORRT_PROVIDER, cuda_major, installed
from trt_workbench.core.cuda_libraries import cuda_package, file_in_package
from trt_workbench.core.gpu import driver_report, why_no_gpu
from trt_workbench.core.launcher import launcher, package, task
from trt_workbench.core.workers import WorkerFailure, ask_python
from trt_workbench.core.workspace import repository, tensorrt_root


def preload(ort: Any) -> None:
    """Open the libraries that the CUDA provider of the module onnxruntime `ort` links, unless they are open already.

    For a library that is not found the loader raises its own message, which `availability` reports.
    """
    for file in library_files(ort):
        try:
            # another copy of a library that is open would be a second runtime in the process
            ctypes.CDLL(Path(file).name, mode=os.RTLD_NOLOAD)
        except OSError:
            try:
                ctypes.CDLL(file)
            except OSError:
                continue


def library_files(ort: Any) -> list[str]:
    """Return what to open, in order: the file in a Python package, else the name for the loader to look up."""
    major = cuda_major(ort)
    if major is None:
        return []
    return [file_in_package(package, name) or name for package, name in _wanted(major)]


def _wanted(major: int) -> Iterator[tuple[str, str]]:
    """Yield the package and name of each library, those that others need first."""
    yield cuda_package("nvidia-cuda-runtime", major), f"libcudart.so.{major}{'' if major > 11 else '.0'}"
    yield cuda_package("nvidia-nvjitlink", major), f"libnvJitLink.so.{major}"
    yield cuda_package("nvidia-cublas", major), f"libcublasLt.so.{major}"
    yield cuda_package("nvidia-cublas", major), f"libcublas.so.{major}"
    yield cuda_package("nvidia-cuda-nvrtc", major), f"libnvrtc.so.{major}"
    yield cuda_package("nvidia-curand", major), "libcurand.so.10"
    yield cuda_package("nvidia-cufft", major), f"libcufft.so.{major - 1}"
    # its other libraries are opened by this one, from its own folder
    yield f"nvidia-cudnn-cu{major}", "libcudnn.so.9"


FILES = {
    CUDA_PROVIDER: "libonnxruntime_providers_cuda.so",
    TENSORRT_PROVIDER: "libonnxruntime_providers_tensorrt.so",
}
_MISSING = re.compile(r"^(\S+\.so[\w.]*): cannot open shared object file")

# In a process of its own: an opened TensorRT stays mapped, and a second one in the process breaks both. What the
# provider links is asked by the file that it brought in: names of CUDA's libraries differ between versions.
_PROBE = """
import contextlib, ctypes, json, os, sys
import onnxruntime  # a provider's library asks it for its host when it is opened
folder, library, *preloaded = sys.argv[1:]
result = {}
for file in preloaded:
    with contextlib.suppress(OSError):
        ctypes.CDLL(file)
def attempt(name, mode=ctypes.DEFAULT_MODE):
    try:
        return ctypes.CDLL(name, mode)
    except OSError as error:
        result.setdefault("library", str(error))
def mapped(name):
    return next((line.split()[-1] for line in open("/proc/self/maps") if "/" + name in line), None)
attempt(os.path.join(folder, "libonnxruntime_providers_shared.so"), ctypes.RTLD_GLOBAL)
attempt(library)
runtime = attempt(mapped("libcudart.so") or (preloaded or ["libcudart.so"])[0])
if not mapped("libcudnn.so"):
    attempt("libcudnn.so.9")
if runtime:
    count = ctypes.c_int()
    result["cuda_error"] = runtime.cudaGetDeviceCount(ctypes.byref(count))
    runtime.cudaGetErrorString.restype = ctypes.c_char_p
    result["cuda_error_text"] = runtime.cudaGetErrorString(result["cuda_error"]).decode()
    result["devices"] = count.value
if file := mapped("libnvinfer.so"):
    result |= {"tensorrt_library": file, "tensorrt": ctypes.CDLL(file).getInferLibVersion()}
print(json.dumps(result))
"""


def gpu_availability(provider: str) -> Availability:
    """Say whether ONNX Runtime's `provider` can serve here, and if not which file is missing and what fixes it.

    Where no GPU is, that is the answer: no library would help.
    """
    found = _examine(provider)
    if not found.ok and (without := why_no_gpu(driver_report())):
        return replace(found, reason=without[0], fix=without[1])
    return found


def _examine(provider: str) -> Availability:
    found = installed("onnxruntime-gpu")
    if not found.ok:
        return found
    from importlib.metadata import distributions

    import onnxruntime as ort

    versions = dict(found.versions)
    folder = Path(ort.__file__).parent / "capi"
    if provider not in ort.get_available_providers() or not (folder / FILES[provider]).is_file():
        wheel = "onnxruntime-gpu" if any(distributions(name="onnxruntime-gpu")) else "onnxruntime"
        reason = f"the installed {wheel} {ort.__version__} has no {provider}: it lacks {FILES[provider]}."
        return Availability(ok=False, reason=reason, fix=package("onnxruntime-gpu"), versions=versions)
    versions["cuda_of_wheel"] = str(getattr(ort, "cuda_version", "") or "unknown")
    return _judged(probe_provider(folder, provider), provider, versions)


def _judged(found: dict[str, Any], provider: str, versions: dict[str, str]) -> Availability:
    """Turn what the probe found into an answer. A library that did not open is none of the hardware's faults."""
    wheel = f"onnxruntime {versions['onnxruntime']}, built for CUDA {versions['cuda_of_wheel']}"
    if "tensorrt" in found:
        versions["tensorrt"] = str(found["tensorrt"])
    reason, fix = "", ""
    if error := found.get("error"):
        reason, fix = f"{FILES[provider]} could not be tested ({error}).", package("onnxruntime-gpu")
    elif error := found.get("library"):
        missing = _MISSING.match(error)
        name = missing[1] if missing else ""
        provider_library = f"{FILES[provider]} ({wheel})"
        how = f"{name} is missing, which {provider_library} needs."
        reason = how if name else f"{provider_library} cannot be opened ({error})."
        fix = _library_advice(name)
    elif found["cuda_error"]:
        reason = f"CUDA returns error {found['cuda_error']} ({found['cuda_error_text']}) to {wheel}."
        fix = _driver_advice()
    elif not found["devices"]:
        reason, fix = "there is no CUDA device.", _driver_advice()
    return Availability(ok=not reason, reason=reason, fix=fix, versions=versions)


@functools.lru_cache(maxsize=8)
def probe_provider(folder: Path, provider: str) -> dict[str, Any]:
    """Open a provider's library in a process of its own, as ONNX Runtime would.

    Returns:
        "library": the loader's words for the first one that did not open; "cuda_error", "cuda_error_text", "devices" of
        the CUDA runtime where it opened; "tensorrt" and "tensorrt_library" for its provider; only "error" if the
        process failed.
    """
    return open_library(folder / FILES[provider])


def open_library(library: Path, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Open a library of a provider in a process of its own, as `probe_provider`; the wheel of ours may not hold it."""
    import onnxruntime as ort

    folder = Path(ort.__file__).parent / "capi"
    try:
        return dict(ask_python(_PROBE, str(folder), str(library), *library_files(ort), environment=environment))
    except WorkerFailure as failure:
        return {"error": str(failure)}


def _driver_advice() -> str:
    return f"Install or update NVIDIA's driver ({task('doctor')} shows what is there)."


def _library_advice(name: str) -> str:
    """Return what brings a library: the driver, TensorRT, or CUDA and cuDNN."""
    if name.startswith(("libcuda.so", "libnvidia-ml.so")):
        return f"It is the NVIDIA driver's. {_driver_advice()}"
    if name.startswith(("libnvinfer", "libnvonnxparser")):
        return _tensorrt_advice()
    return f"{package('onnxruntime-gpu')} Or add the folder with the CUDA libraries to LD_LIBRARY_PATH."


def _tensorrt_advice() -> str:
    # the environments for GPUs are activated with what setup-tensorrt makes
    source = "" if launcher().environment else " and `source tasks/activate-tensorrt.sh`"
    if source and not repository():
        source = f" and add {tensorrt_root()}/current/lib to LD_LIBRARY_PATH"
    return (
        f"Run {task('setup-tensorrt')}{source}; if the wheel links another major version of TensorRT, build ONNX "
        f"Runtime with {task('build-ort')}."
    )
