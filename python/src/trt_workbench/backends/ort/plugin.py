"""Providers in libraries of their own, which ONNX Runtime registers: TensorRT's plug-in, and TensorRT-RTX's."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.backends.base import Availability
from trt_workbench.core.counts import counted
from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.core.launcher import task
from trt_workbench.core.workers import WorkerFailure, ask_python
from trt_workbench.core.workspace import extern_root
from trt_workbench.engine.tensorrt import current_root, headers_version

if TYPE_CHECKING:
    import onnxruntime as ort

TENSORRT_PLUGIN = "TensorRTPluginExecutionProvider"
# The oldest ONNX Runtime with the interface that the plug-in is compiled against.
PLUGIN_MINIMUM = "1.23.0"

# In a process of its own: what a plug-in links stays mapped, and may crash where the driver does not fit.
_PROBE = """
import ctypes, json, sys
import onnxruntime
name, library = sys.argv[1:]
found = {}
try:
    onnxruntime.register_execution_provider_library(name, library)
    found["devices"] = sum(one.ep_name == name for one in onnxruntime.get_ep_devices())
    for line in open("/proc/self/maps"):
        if "libnvinfer.so" in line:
            found["tensorrt"] = ctypes.CDLL(line.split()[-1]).getInferLibVersion()
            break
except Exception as error:
    found["error"] = str(error)
print(json.dumps(found))
"""


@dataclass(frozen=True)
class PluginProvider:
    """A provider in a library of its own, on one card.

    Attributes:
        name: under which it is registered; nodes and devices have it.
        library: its file.
        card: which of the cards that it serves, from 0.
    """

    name: str
    library: str
    card: int = 0

    def device(self, ort: Any) -> Any:
        """Return its card for ONNX Runtime.

        Raises:
            ComponentMissing: the library cannot be loaded, or sees no card.
            UsageProblem: there is no such card.
        """
        _register(ort, self.name, self.library)
        devices = [one for one in ort.get_ep_devices() if one.ep_name == self.name]
        if not devices:
            raise ComponentMissing(f"{self.name} sees no supported card.")
        if self.card >= len(devices):
            raise UsageProblem(
                f"There is no card {self.card}: {self.name} sees {counted(len(devices), 'card')}, counted from 0."
            )
        return devices[self.card]


def open_session(
    ort: Any, model: Any, config: Any, providers: Sequence[tuple[str, dict[str, str]]], plugin: PluginProvider | None
) -> ort.InferenceSession:
    """Return a session whose first provider is the plug-in's if there is one. Raises as ONNX Runtime and `device` do.

    Args:
        ort: the module onnxruntime.
        model: path, or its bytes.
        config: the session's settings, which get the plug-in.
        providers: with their options, in order of preference.
        plugin: where the first of them is.
    """
    # without enable_fallback=0 a failure to start the provider gives a session without it
    if plugin is None:
        return ort.InferenceSession(model, config, providers=list(providers), enable_fallback=0)
    config.add_provider_for_devices([plugin.device(ort)], providers[0][1])
    return ort.InferenceSession(model, config, enable_fallback=0)


def plugin_availability(plugin: PluginProvider, versions: dict[str, str]) -> Availability:
    """Say whether a plug-in can be opened and sees a card; `versions` get that of its TensorRT."""
    found = probe_plugin(plugin.name, plugin.library)
    if "tensorrt" in found:
        versions = {**versions, "tensorrt": str(found["tensorrt"])}
    reason = ""
    if problem := found.get("error"):
        reason = f"ONNX Runtime {versions['onnxruntime']} cannot open the provider ({problem})."
    elif not found.get("devices"):
        reason = "the provider loads, but sees no supported card."
    fix = f"{task('doctor')} shows the driver; it must support CUDA 13 (580 or newer)." if reason else ""
    return Availability(ok=not reason, reason=reason, fix=fix, versions=versions)


@functools.cache
def probe_plugin(name: str, library: str) -> dict[str, Any]:
    """Register a provider in a process of its own.

    Returns:
        "devices": how many cards it serves, and "tensorrt" where it opens that; or "error": why it cannot be opened.
    """
    try:
        return dict(ask_python(_PROBE, name, library))
    except WorkerFailure as failure:
        return {"error": str(failure)}


@functools.cache
def _register(ort: Any, name: str, library: str) -> None:
    try:
        ort.register_execution_provider_library(name, library)
    except Exception as error:
        raise ComponentMissing(f"{name} cannot be loaded ({error}): {library}") from error


def plugin_file(onnxruntime: str, tensorrt_major: int | str) -> Path:
    """Return where the plug-in for one ONNX Runtime and one major version of TensorRT is, once it is built."""
    return extern_root() / "onnxruntime" / f"ep-tensorrt-{onnxruntime}-{tensorrt_major}.so"


def tensorrt_plugin_availability(own: Availability) -> Availability:
    """Say whether TensorRT's plug-in serves where ONNX Runtime's own provider does not.

    Args:
        own: why that one does not; returned where there is no plug-in.

    Returns:
        With a version "ort_trt_plugin" where there is one for this ONNX Runtime and the TensorRT that is set up.
    """
    version = own.versions.get("onnxruntime", "")
    root = current_root()
    headers = root and headers_version(root / "include")
    wanted = plugin_file(version, headers[0] if headers else "*")
    built = sorted(wanted.parent.glob(plugin_file("*", "*").name))
    found = [file for file in built if file.match(wanted.name)]
    if not built:
        return own
    if not found:
        others = ", ".join(file.name for file in built)
        here = f"onnxruntime {version}{f' with TensorRT {headers[0]}' if headers else ''}"
        reason = f"the plug-in is built for another ONNX Runtime or TensorRT ({others}), not for {here}."
        return replace(own, reason=reason, fix=f"Run {task('build-ort')}.")
    return plugin_availability(
        PluginProvider(TENSORRT_PLUGIN, str(found[-1])), {**own.versions, "ort_trt_plugin": found[-1].name}
    )


def tensorrt_plugin(versions: Mapping[str, str], card: int) -> PluginProvider | None:
    """Return the plug-in that serves by the versions of an availability; None where ONNX Runtime's own one does."""
    name = versions.get("ort_trt_plugin")
    return PluginProvider(TENSORRT_PLUGIN, str(extern_root() / "onnxruntime" / name), card) if name else None
