"""Lets ONNX Runtime 1.17 to 1.23 stand in for the pinned one, in every process that has this folder in PYTHONPATH.

For runs on a GPU with TensorRT 8.6.0, the newest whose libraries can be had, which only these versions link:
`PYTHONPATH=tests/old_onnxruntime trtw eval-coco --backend ort-trt`. Python imports a `sitecustomize` when it starts, in
workers, too. Where nodes were placed, which these versions tell nobody, is read from their log.
"""

import importlib.abc
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import SimpleNamespace
from typing import Any, TextIO

RECORD_ENTRY = "session.record_ep_graph_assignment_info"
CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"

os.environ.setdefault("TRTW_STACK", "")  # versions of a stack are the user's choice, however old


@contextmanager
def stderr_in(file: TextIO) -> Iterator[None]:
    kept, _ = os.dup(2), os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def placements(log: str, nodes: list[Any]) -> list[tuple[str, list[Any]]]:
    """Return groups of nodes with their provider; nodes that the log does not list are those of a compiled one."""
    provider, compiled, found = "", "", list[tuple[str, list[Any]]]()
    for line in re.findall(r"IsAssignedToAnEp\w*\] +(.*?)(?:\x1b.*)?$", log, re.MULTILINE):
        if header := re.match(r"(All nodes|Node\(s\)) placed on \[(\w+)\]", line):
            provider = header[2]
            if header[1] == "All nodes":
                return [(provider, nodes)]
        elif listed := re.match(r"(?!Memcpy)(\S+) \((.*)\)", line):
            compiled = provider if listed[2].startswith(provider) else compiled
            if not listed[2].startswith(provider):
                found.append((provider, [SimpleNamespace(domain="", op_type=listed[1], name=listed[2])]))
    names = {node.name for _, several in found for node in several}
    return [*([(compiled, [node for node in nodes if node.name not in names])] if compiled else []), *found]


def adapt(ort: Any) -> None:
    """Give the module what it lacks of what the product asks for."""
    is_117 = ort.__version__.startswith("1.17.")
    if is_117 and CUDA in ort.get_available_providers():
        ort.cuda_version = "11.8"  # which the wheel does not say

    class Session(ort.InferenceSession):  # type: ignore[misc]
        # 1.17 does not know enable_fallback=0, and goes on with the CPU after a refused option
        _enable_fallback = property(lambda _: False, lambda _, __: None)

        def __init__(self, model: Any, config: Any = None, providers: Any = (), **more: Any) -> None:
            self._groups: list[tuple[str, list[Any]]] = []
            asked = [(one, {}) if isinstance(one, str) else one for one in providers]
            taken = [(name, {k: v for k, v in one.items() if not (is_117 and k == "use_tf32")}) for name, one in asked]
            path = os.fspath(model) if isinstance(model, os.PathLike) else model
            if config is None or not is_recorded(config):
                super().__init__(path, config, providers=taken, **more)
                return
            import onnx

            severity, config.log_severity_level = config.log_severity_level, 0
            with tempfile.TemporaryFile("w+", errors="replace") as log:
                try:
                    with stderr_in(log):
                        super().__init__(path, config, providers=taken, **more)
                finally:
                    config.log_severity_level = severity
                    log.seek(0)
                    said = log.read()
                    sys.stderr.write("".join(re.findall(r".*\[E:.*\n", said)))
                graph = (onnx.load_from_string if isinstance(path, bytes) else onnx.load)(path).graph
                self._nodes = [node for node in graph.node if node.op_type != "Constant"]
                self._groups = placements(said, self._nodes)

        def get_provider_graph_assignment_info(self) -> list[Any]:
            return [SimpleNamespace(ep_name=name, get_nodes=lambda nodes=nodes: nodes) for name, nodes in self._groups]

        def get_input_memory_infos(self) -> list[Any]:
            on_cpu = {node.name for name, nodes in self._groups if name == CPU for node in nodes}
            readers = [[one for one in self._nodes if spec.name in one.input] for spec in self.get_inputs()]
            return [SimpleNamespace(name="Cpu" if of and of[0].name in on_cpu else "Cuda") for of in readers]

    ort.InferenceSession = Session


def is_recorded(config: Any) -> bool:
    try:
        return bool(config.get_session_config_entry(RECORD_ENTRY) == "1")
    except Exception:  # what it raises where there is no such entry
        return False


class Finder(importlib.abc.MetaPathFinder):
    """Adapts the module when it is imported, which few processes do; others only ask whether it is there."""

    _asked = False

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        if name != "onnxruntime" or self._asked:
            return None
        self._asked = True
        spec = importlib.util.find_spec(name)
        self._asked = False
        if spec and (execute := getattr(spec.loader, "exec_module", None)):
            spec.loader.exec_module = lambda module: (execute(module), adapt(module))[0]  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, Finder())
