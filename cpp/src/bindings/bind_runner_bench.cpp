// Measurements.
#include "bind_closable.hpp"
#include "bind_options.hpp"
#include "bind_runner_call.hpp"
#include "bindings.hpp"
#include "trtw/bench.hpp"
#include "trtw/error.hpp"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace trtw::bindings {

namespace {

using PlanPointer = std::shared_ptr<Plan>;

BenchResult bench(const PlanPointer& plan, const py::object& inputs, const std::optional<BenchOptions>& options) {
    const Inputs names{plan, {}};
    const auto request = names.host_request(inputs);
    const py::gil_scoped_release unlocked;
    return trtw::bench(plan, request->call.inputs, options.value_or(BenchOptions{}), &serve_signals);
}

std::vector<LayerTime> profile_layers(const PlanPointer& plan, const py::object& inputs, int iterations,
                                      std::optional<int> profile) {
    const Inputs names{plan, {}};
    const auto request = names.host_request(inputs);
    const py::gil_scoped_release unlocked;
    return trtw::profile_layers(plan, request->call.inputs, iterations, profile, &serve_signals);
}

// One field of every sample as an array.
template <class Value, class Field>
auto column(Field Sample::* field) {
    return [field](const BenchResult& result) {
        py::array_t<Value> values(static_cast<py::ssize_t>(result.samples.size()));
        Value* target = values.mutable_data();
        for (const Sample& sample : result.samples) {
            *target++ = static_cast<Value>(sample.*field);
        }
        return values;
    };
}

void bind_result(py::module_& m) {
    py::class_<BenchResult>(m, "BenchResult", "Every query of a measurement after the warm-up, ordered by start.")
        .def("__len__", [](const BenchResult& r) { return r.samples.size(); })
        .def_property_readonly("start_ms", column<double>(&Sample::start_ms))
        .def_property_readonly("compute_start_ms", column<double>(&Sample::compute_start_ms))
        .def_property_readonly("end_ms", column<double>(&Sample::end_ms))
        .def_property_readonly("enqueue_ms", column<double>(&Sample::enqueue_ms))
        .def_property_readonly("h2d_ms", column<double>(&Sample::h2d_ms))
        .def_property_readonly("compute_ms", column<double>(&Sample::compute_ms))
        .def_property_readonly("d2h_ms", column<double>(&Sample::d2h_ms))
        .def_property_readonly("latency_ms", column<double>(&Sample::latency_ms))
        .def_property_readonly("host_start_ms", column<double>(&Sample::host_start_ms))
        .def_property_readonly("end_to_end_ms", column<double>(&Sample::end_to_end_ms))
        .def_property_readonly("stream", column<std::int32_t>(&Sample::stream))
        .def_readonly("wall_ms", &BenchResult::wall_ms)
        .def_readonly("host_wall_ms", &BenchResult::host_wall_ms)
        .def_property_readonly("throughput_qps",
                               [](const BenchResult& r) {
                                   return r.wall_ms > 0.0 ? static_cast<double>(r.samples.size()) * 1000.0 / r.wall_ms
                                                          : 0.0;
                               })
        .def_readonly("warmup_queries", &BenchResult::warmup_queries)
        .def_readonly("graph", &BenchResult::graph)
        .def_property_readonly("graph_fallback", [](const BenchResult& r) { return text_or_none(r.graph_fallback); });
}

void bind_layers(py::module_& m) {
    py::class_<LayerTime>(m, "LayerTime", "Device time of one layer.")
        .def_readonly("name", &LayerTime::name)
        .def_property_readonly("milliseconds", [](const LayerTime& layer) {
            return py::array_t<float>(static_cast<py::ssize_t>(layer.milliseconds.size()), layer.milliseconds.data());
        });
    m.def("profile_layers", &profile_layers, py::arg("engine").none(false), py::arg("inputs"), py::kw_only(),
          py::arg("iterations") = 20, py::arg("profile") = py::none(), "Times every layer, in execution order.");
}

} // namespace

void bind_bench(py::module_& m) {
    bind_options(m, "BenchOptions", "What `bench` does; the method is trtexec's."
#define TRTW_OPTION(name, value, doc, ...) , Field<BenchOptions, __VA_ARGS__>{#name, &BenchOptions::name, doc}
#include "trtw/bench_options.def"
#undef TRTW_OPTION
    );
    bind_result(m);
    bind_layers(m);
    m.def("bench", &bench, py::arg("engine").none(false), py::arg("inputs"), py::arg("options") = py::none(),
          "Measures an engine by trtexec's method.");
}

} // namespace trtw::bindings
