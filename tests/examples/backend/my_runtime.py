"""A backend of another package: a runtime of one's own, here ONNX Runtime as it comes."""

from pathlib import Path

from trt_workbench.backends.base import Availability, Backend, Session, SessionOptions, TensorSpec
from trt_workbench.model.facts import ModelTensor
from trt_workbench.model.opened import Model


class MyBackend(Backend):
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


class MySession(Session):
    """One loaded model. `run` has checked the inputs when it calls `_infer`."""

    def __init__(self, model: Path, options: SessionOptions) -> None:
        import onnxruntime

        facts = Model.open(model).facts  # refuses what no runtime should read, without reading the weights
        self.inputs, self.outputs = (tuple(map(_spec, tensors)) for tensors in (facts.inputs, facts.outputs))
        self._session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        self.metadata = self._session.get_modelmeta().custom_metadata_map
        self.provenance = {"device": "cpu"}
        self.concurrency = options.concurrency

    def _infer(self, inputs):
        names = [spec.name for spec in self.outputs]
        return dict(zip(names, self._session.run(names, inputs), strict=True))

    def _close(self) -> None:
        del self._session


def _spec(tensor: ModelTensor) -> TensorSpec:
    shape = tuple(dim if isinstance(dim, int) else None for dim in tensor.shape or ())
    return TensorSpec(tensor.name, tensor.dtype, shape)
