// The extension module `_core`: errors, build information, and the parts that this build holds.
#include "bindings.hpp"

#include "bind_refusals.hpp"

#include "trtw/error.hpp"

namespace py = pybind11;
using trtw::bindings::text_or_none;

namespace {

// What this module was compiled with; says nothing about the machine it runs on.
py::dict build_info() {
    py::dict info;
    info["version"] = TRTW_VERSION;
    info["cuda"] = text_or_none(TRTW_CUDA_VERSION);
    info["cuda_architectures"] = text_or_none(TRTW_CUDA_ARCHITECTURES);
    info["tensorrt_headers"] = text_or_none(TRTW_TENSORRT_HEADERS);
    info["compiler"] = TRTW_COMPILER;
    return info;
}

void register_errors(py::module_& m) {
    const auto& base = py::register_exception<trtw::Error>(m, "NativeError");
    py::register_exception<trtw::UsageProblem>(m, "UsageProblem", base);
    py::register_exception<trtw::ComponentMissing>(m, "ComponentMissing", base);
    // those that derive from another one after it: the last that is registered is tried first
    const auto& device = py::register_exception<trtw::DeviceFailure>(m, "DeviceFailure", base);
    py::register_exception<trtw::OutOfMemory>(m, "OutOfMemory", device);
    py::register_exception<trtw::DeviceLost>(m, "DeviceLost", device);
    py::register_exception<trtw::CheckFailed>(m, "CheckFailed", base);
    py::register_exception<trtw::Cancelled>(m, "Cancelled", base);
}

} // namespace

PYBIND11_MODULE(_core, m) {
    m.doc() = "C++ core of trt-workbench: TensorRT engines, CUDA memory, vision kernels.";
    register_errors(m);
    m.def("build_info", &build_info,
          "Returns what this module was compiled with: version, cuda, cuda_architectures, tensorrt_headers, compiler.");
    trtw::bindings::bind_library(m);
    trtw::bindings::bind_device(m);
    trtw::bindings::bind_vision(m);
#ifdef TRTW_WITH_TENSORRT
    trtw::bindings::bind_runner(m);
    trtw::bindings::bind_builder(m);
#ifdef TRTW_WITH_KERNELS
    trtw::bindings::bind_stream_pool(m);
    trtw::bindings::bind_detector(m);
#endif
#endif
    trtw::bindings::reword_refusals(m);
}
