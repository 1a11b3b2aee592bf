"""The backend with a second precision: fp16, from a graph that is converted once and kept."""

from my_runtime import MyBackend, MySession

from trt_workbench.backends.graph_precision import model_in_precision
from trt_workbench.model.opened import Model


class MyHalfBackend(MyBackend):
    name = "my-half-runtime"
    precisions = ("fp32", "fp16")

    def _load(self, model, options):
        loaded, record = model_in_precision(self.name, Model.open(model), options.precision)
        session = MySession(loaded.path, options)
        session.provenance |= record  # what was asked for, and how it was had
        return session
