// The extension module of the tests: the real bindings of Runner, tickets, arrays and stream pools. An engine is a
// double.
#include "bind_device_array.hpp"
#include "bind_refusals.hpp"
#include "bind_runner_call.hpp"
#include "bindings.hpp"
#include "fake_cuda.hpp"
#include "fake_engine.hpp"
#include "trtw/detail/stream.hpp"
#include "trtw/error.hpp"

#include <pybind11/stl.h>

#include <optional>

namespace py = pybind11;

namespace trtw::bindings {

namespace {

// A `with` block in which the double of CUDA is in another state.
template <class State>
struct While {
    std::optional<State> state;
};

template <class State>
void bind_while(py::module_& m, const char* name) {
    py::class_<While<State>>(m, name)
        .def(py::init<>())
        .def("__enter__", [](While<State>& self) { self.state.emplace(); })
        .def("__exit__", [](While<State>& self, const py::args&) { self.state.reset(); });
}

// y = x, with so many states that stay as they are.
std::shared_ptr<fake::Engine> many(int states, std::int64_t elements) {
    std::vector<TensorInfo> tensors{fake::input("x", 4), fake::output("y", 4)};
    for (int i = 0; i < states; ++i) {
        tensors.push_back(fake::input("past." + std::to_string(i), elements));
        tensors.push_back(fake::output("present." + std::to_string(i), elements));
    }
    auto engine =
        std::make_shared<fake::Engine>(tensors, [](const std::vector<fake::Values>& in, float) { return in; });
    engine->infer = [](const std::vector<Shape>& in) { return in; };
    return engine;
}

} // namespace

void bind_engine(py::module_& m) {
    using fake::Engine;
    py::class_<trtw::Plan, std::shared_ptr<trtw::Plan>>(m, "Plan");
    py::class_<Engine, trtw::Plan, std::shared_ptr<Engine>>(m, "Engine")
        .def_static("recurrent", &fake::recurrent, py::arg("elements") = 4, "y = x + h + 1, h_next = x + h")
        .def_static("twice", &fake::twice, py::arg("elements") = -1, "y = 2 x + 1")
        .def_static("many", &many, py::arg("states"), py::arg("elements") = 4,
                    "y = x, and states that stay as they are")
        .def_readwrite("open_output", &Engine::open_output)
        .def_readwrite("streams_weights", &Engine::streams_weights_);
    m.def("launched_graphs", &fake::launched_graphs);
    m.def("waits", &fake::waits);
    py::class_<trtw::Stream>(m, "Stream", "A stream of the caller's.")
        .def(py::init<>())
        .def_property_readonly(
            "cuda_stream", [](const trtw::Stream& stream) { return reinterpret_cast<std::uintptr_t>(stream.get()); })
        .def("hold", [](const trtw::Stream& stream) { fake::hold(stream.get()); })
        .def("release", [](const trtw::Stream& stream) { fake::release(stream.get()); });
}

} // namespace trtw::bindings

PYBIND11_MODULE(_core, m) {
    const auto& base = py::register_exception<trtw::Error>(m, "NativeError");
    py::register_exception<trtw::UsageProblem>(m, "UsageProblem", base);
    const auto& device = py::register_exception<trtw::DeviceFailure>(m, "DeviceFailure", base);
    py::register_exception<trtw::OutOfMemory>(m, "OutOfMemory", device);
    trtw::bindings::bind_device_array(m);
    trtw::bindings::bind_vision(m);
    trtw::bindings::bind_runner(m);
    trtw::bindings::bind_stream_pool(m);
    trtw::bindings::bind_detector(m);
    trtw::bindings::bind_while<fake::HeldDevice>(m, "HeldDevice");
    trtw::bindings::bind_while<fake::FullDevice>(m, "FullDevice");
    trtw::bindings::reword_refusals(m);
}
