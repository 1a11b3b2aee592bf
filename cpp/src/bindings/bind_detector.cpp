// Images to boxes on the device.
#include "bind_closable.hpp"
#include "bind_runner_call.hpp"
#include "bind_vision.hpp"
#include "bindings.hpp"
#include "trtw/detector.hpp"

#include <pybind11/stl.h>

#include <utility>

namespace py = pybind11;

namespace trtw::bindings {

namespace {

/// A detector as Python holds it. Its own members are touched with the GIL held only.
class PyDetector {
public:
    PyDetector(std::shared_ptr<Plan> plan, const HeadSpec& spec, const std::optional<RunnerOptions>& options)
        : plan_{std::move(plan)}, spec_{spec},
          detector_{make(plan_, spec, options.value_or(RunnerOptions{})), "The detector is closed; make a new one."},
          inputs_{plan_, {}} {}

    py::tuple run(const py::object& inputs, const std::vector<std::string>& outputs) {
        const auto detector = detector_.get();
        const auto request = inputs_.request(inputs, detector->runner().intake());
        request->selection = select_outputs(*plan_, {}, outputs, py::bool_(false), {});
        request->call.to_host = request->selection.to_host;
        request->call.to_device = request->selection.to_device;
        const Runner::Finished finished = unlocked(left_, request->keep, [&] { return detector->run(request->call); });
        return py::make_tuple(boxes_of(detector->found(finished), spec_),
                              collect(*plan_, finished, request->selection, true, {}, *arrays_));
    }

    [[nodiscard]] Timing timing() const { return detector_.get()->runner().last_timing(); }
    [[nodiscard]] std::string graph_text() const { return detector_.get()->runner().graph_status(); }

    void close() {
        detector_.close([] {});
        arrays_->clear();
        if (objects_in_call.empty()) {
            left_.clear();
        }
    }

private:
    static std::unique_ptr<Detector> make(const std::shared_ptr<Plan>& plan, const HeadSpec& spec,
                                          const RunnerOptions& options) {
        const py::gil_scoped_release unlocked;
        return std::make_unique<Detector>(plan, options, spec, &serve_signals);
    }

    std::shared_ptr<Plan> plan_;
    HeadSpec spec_;
    Closable<Detector> detector_;
    Inputs inputs_;
    std::shared_ptr<ArrayPool> arrays_ = std::make_shared<ArrayPool>();
    std::vector<py::object> left_; ///< by calls that were interrupted
};

} // namespace

void bind_detector(py::module_& m) {
    py::class_<PyDetector>(m, "Detector", "Runs an engine and finds the boxes in its outputs, on the device.")
        .def(py::init<std::shared_ptr<Plan>, const HeadSpec&, const std::optional<RunnerOptions>&>(),
             py::arg("engine").none(false), py::arg("spec"), py::arg("options") = py::none())
        .def("run", &PyDetector::run, py::arg("inputs"), py::kw_only(), py::arg("outputs") = std::vector<std::string>{},
             "Executes the engine once and finds boxes.")
        .def("timing", &PyDetector::timing, "Returns the times of the call that ended last.")
        .def("graph_status", &PyDetector::graph_text, "Returns in one line whether CUDA graphs are in use.")
        .def("close", &PyDetector::close, "Waits for the calls in flight and releases memory; safe to call twice.")
        .def("__enter__", [](py::object self) { return self; })
        .def("__exit__", [](PyDetector& detector, const py::args&) { detector.close(); });
}

} // namespace trtw::bindings
