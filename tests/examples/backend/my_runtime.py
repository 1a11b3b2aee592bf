"""A backend of another package: a runtime of one's own, here ONNX Runtime as it comes."""

import json
from pathlib import Path

import numpy as np

from trt_workbench.backends.abilities import DividesModels, Profiles, Reproduces, Reproduction
from trt_workbench.backends.base import Availability, Backend, Session, SessionOptions, TensorSpec
from trt_workbench.backends.profiling import Operation, Profiled
from trt_workbench.model.graph_types import read_precision
from trt_workbench.model.opened import Model
from trt_workbench.model.partitions import make_partitions


class MyBackend(Backend, Profiles, DividesModels, Reproduces):
    """What it can do stands in the class; the runtime is imported where it is used."""

    name = "my-runtime"
    file_kinds = (".onnx",)
    precisions = ("fp32",)
    devices = ("cpu",)

    def availability(self) -> Availability:
        try:
            import onnxruntime
        except ImportError as error:
            return Availability(ok=False, reason=f"It needs onnxruntime ({error}).", fix="pip install onnxruntime")
        return Availability(ok=True, versions={"onnxruntime": onnxruntime.__version__})

    def _load(self, model: Path, options: SessionOptions) -> Session:
        return MySession(model, options)

    def profile(self, model, options, runs):
        """For `profile`: the time of every node, from the runtime's own profiler."""
        import onnxruntime

        runs.folder.mkdir(parents=True, exist_ok=True)
        settings = onnxruntime.SessionOptions()
        settings.enable_profiling, settings.profile_file_prefix = True, str(runs.folder / "my-runtime")
        session = onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
        inputs = runs.feed([*map(TensorSpec.of, Model.open(model).facts.inputs)])
        for _ in range(runs.warmup + runs.iterations):
            session.run(None, inputs)
        found = {}
        for event in json.loads(Path(session.end_profiling()).read_text()):
            found.setdefault((event["cat"], event["name"].removesuffix("_kernel_time")), []).append(event["dur"] / 1e3)
        nodes = [(name, ms[runs.warmup :]) for (kind, name), ms in found.items() if kind == "Node"]
        operations = [_operation(place, *node, runs.nodes) for place, node in enumerate(nodes)]
        return Profiled(operations, {"device": "cpu"}, found["Session", "model_run"][runs.warmup :])

    def partitions(self, request):
        """For `partitions`: this runtime executes every node itself."""
        index = Model.open(request.model).index
        count = len(index.nodes)
        basis = "my-runtime has one provider"
        return make_partitions(index, self.name, [self.name] * count, [""] * count, basis=basis)

    def reproduction(self, options, provenance):
        """For `verify --bisect`: a script that needs the runtime alone."""
        body = 'found = dict(zip(expected, ort.InferenceSession(here / "minimal.onnx").run(list(expected), inputs)))\n'
        return Reproduction("onnxruntime and numpy", "import numpy as np, onnxruntime as ort", body)


class MySession(Session):
    """One loaded model. `run` has checked the inputs when it calls `_infer`."""

    def __init__(self, model: Path, options: SessionOptions) -> None:
        import onnxruntime

        self._file = Model.open(model)
        facts = self._file.facts  # refuses what no runtime should read, without reading the weights
        self.inputs, self.outputs = (tuple(map(TensorSpec.of, tensors)) for tensors in (facts.inputs, facts.outputs))
        self._session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        self.metadata = self._session.get_modelmeta().custom_metadata_map
        self.provenance = {"device": "cpu"}
        self.concurrency = options.concurrency

    def _infer(self, inputs):
        names = [spec.name for spec in self.outputs]
        return dict(zip(names, self._session.run(names, inputs), strict=True))

    def _precision(self):
        return read_precision(self._file)  # this runtime computes in the types of the graph

    def _close(self) -> None:
        del self._session


def _operation(place, name, milliseconds, model):
    times = {"median_ms": float(np.median(milliseconds)), "mean_ms": float(np.mean(milliseconds))}
    known = [name] if name in model.operators else []
    return Operation(kind="node", index=place, name=name, operator=model.operators.get(name), onnx_nodes=known, **times)
