// Building engines from Python.
#include "bindings.hpp"

#include "bind_builder.hpp"
#include "bind_builder_convert.hpp"

#include "build/builder_config.hpp"
#include "build/onnx_parser.hpp"
#include "build/precision.hpp"
#include "build/timing_cache.hpp"
#include "trt/types.hpp"
#include "trtw/builder.hpp"
#include "trtw/error.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace trtw::bindings {

namespace {

// What Python keeps of a build: of TensorRT's own objects the builder alone, to merge timing caches.
struct Built {
    py::bytes plan;
    py::object timing_cache = py::none();
    py::object calibration_cache = py::none();
    BuildResult rest;
};

// Runs in whatever thread TensorRT calls from. Ctrl-C is served here, as the build itself never returns to Python.
ProgressCallback progress_callback(const std::optional<py::function>& function) {
    return [function = function ? function->ptr() : nullptr](std::string_view phase, int step, int total) {
        const py::gil_scoped_acquire locked;
        if (PyErr_CheckSignals() != 0) {
            throw py::error_already_set();
        }
        if (function == nullptr) {
            return true;
        }
        const py::object answer = py::reinterpret_borrow<py::function>(function)(decoded(phase), step, total);
        return answer.is_none() || py::bool_(answer).cast<bool>();
    };
}

Built build_engine(const py::object& model, const BuildOptions& given, const std::optional<py::function>& progress) {
    const std::string path = path_text(model);
    // Other threads may change theirs meanwhile.
    const BuildOptions options = given; // NOLINT(performance-unnecessary-copy-initialization)
    BuildResult result;
    {
        const py::gil_scoped_release unlocked;
        result = trtw::build_engine(path, options, progress_callback(progress));
    }
    Built built;
    built.plan = bytes_of(std::exchange(result.plan, {}));
    if (result.timing_cache) {
        built.timing_cache = bytes_of(std::exchange(result.timing_cache, {}));
    }
    if (!result.calibration_cache.empty()) {
        built.calibration_cache = py::bytes(result.calibration_cache);
    }
    built.rest = std::move(result);
    return built;
}

py::bytes merge_timing_caches(const Built& self, const std::vector<py::bytes>& caches) {
    const std::shared_ptr<TimingCacheMerger> merger = self.rest.merger;
    if (!merger) {
        throw UsageProblem(
            "The timing cache of this build was disabled, so it has no builder that could merge others.");
    }
    const std::vector<std::string> copies{caches.begin(), caches.end()};
    std::string merged;
    {
        const py::gil_scoped_release unlocked;
        merged = merger->merge(copies);
    }
    return merged;
}

void bind_result(py::module_& m) {
    py::class_<TensorDescription>(m, "NetworkTensor", "An input or output of the network that was parsed.")
        .def_readonly("name", &TensorDescription::name)
        .def_readonly("dtype", &TensorDescription::dtype)
        .def_property_readonly(
            "shape", [](const TensorDescription& self) { return tuple_of(self.shape); },
            "Dimensions; -1 where only known at run time.")
        .def_readonly("is_input", &TensorDescription::is_input)
        .def_readonly("is_shape_tensor", &TensorDescription::is_shape_tensor);
    const auto rest = [](auto member) { return [member](const Built& self) { return self.rest.*member; }; };
    py::class_<Built>(m, "BuildResult",
                      "A built plan and what is known of its making. Unless the timing cache was disabled, it "
                      "holds TensorRT's builder, with its memory, until it is freed.")
        .def_readonly("plan", &Built::plan)
        .def_readonly("timing_cache", &Built::timing_cache, "Bytes; None where the timing cache was disabled.")
        .def_readonly("calibration_cache", &Built::calibration_cache, "Bytes; None without calibration.")
        .def_property_readonly("parse_s", rest(&BuildResult::parse_s))
        .def_property_readonly("build_s", rest(&BuildResult::build_s),
                               "Seconds of TensorRT's build, calibration included.")
        .def_property_readonly("layer_count", rest(&BuildResult::layer_count),
                               "Layers of the network; an engine has fewer after fusion.")
        .def_property_readonly("skipped_tactics", rest(&BuildResult::skipped_tactics),
                               "Kernels skipped because memory ran out: a sign of a slower engine.")
        .def_property_readonly("warnings",
                               [](const Built& self) {
                                   py::list lines;
                                   for (const std::string& line : self.rest.warnings) {
                                       lines.append(decoded(line));
                                   }
                                   return lines;
                               })
        .def_property_readonly("inputs", [](const Built& self) { return tuple_of(self.rest.inputs); })
        .def_property_readonly("outputs", [](const Built& self) { return tuple_of(self.rest.outputs); })
        .def("merge_timing_caches", &merge_timing_caches, py::arg("caches"),
             "Joins timing caches with the builder of this build; on a conflict the earlier wins.\n\n"
             "Raises:\n    UsageProblem: TensorRT rejects one of them, or the build's timing cache was disabled.\n"
             "    DeviceFailure: The GPU fails.");
}

void bind_hold(py::module_& m) {
    py::class_<BuilderHold>(m, "BuilderHold",
                            "Keeps TensorRT's builder loaded until it is closed or freed, for a process that "
                            "builds several engines: loading it takes seconds each time.")
        .def(py::init<int>(), py::arg("device") = 0, py::call_guard<py::gil_scoped_release>(),
             "Loads it on a device.\n\n"
             "Raises:\n    ComponentMissing: TensorRT's library or its builder is absent.\n"
             "    UsageProblem: The device does not exist.\n    DeviceFailure: No GPU can be used.")
        .def("close", &BuilderHold::close, py::call_guard<py::gil_scoped_release>(),
             "Releases it; calling it again does nothing.");
}

std::vector<std::string> unsupported_operators(const std::vector<std::string>& op_types) {
    const py::gil_scoped_release unlocked;
    return trtw::unsupported_operators(op_types);
}

py::dict option_names() {
    py::dict names;
    names["precisions"] = trtw::precision_names();
    names["data_types"] = trtw::dtype_names();
    names["memory_pools"] = trtw::memory_pool_names();
    names["tactic_sources"] = trtw::tactic_source_names();
    names["preview_features"] = trtw::preview_feature_names();
    names["io_formats"] = trtw::io_format_names();
    return names;
}

} // namespace

void bind_builder(py::module_& m) {
    bind_builder_options(m);
    bind_builder_engine(m);
    bind_result(m);
    bind_hold(m);
    m.def("build_engine", &build_engine, py::arg("model"), py::arg("options"), py::arg("progress") = py::none(),
          "Builds a plan from an ONNX file. The interpreter lock is free while TensorRT works.\n\n"
          "Args:\n    model: Path of the model; its external data is next to it.\n    options: What is asked for.\n"
          "    progress: Called with a phase's name, the steps done and the steps in all (0: unknown), from any thread;"
          " False ends the build.\n\n"
          "Raises:\n    UsageProblem: The model or the options cannot be built.\n"
          "    ComponentMissing: TensorRT's library or its parser is absent.\n"
          "    DeviceFailure: The GPU fails or its memory does not suffice.\n"
          "    Cancelled: `progress` returned False.");
    m.def("unsupported_operators", &unsupported_operators, py::arg("op_types"),
          "Returns those of the ONNX operators that TensorRT's parser does not import, plugins aside.\n\n"
          "Raises:\n    DeviceFailure: No GPU can be used.");
    m.def(
        "option_names", &option_names,
        "Returns the words that options take in the TensorRT in use, or in the headers before one is open: precisions, "
        "data_types, memory_pools, tactic_sources, preview_features, io_formats.");
}

} // namespace trtw::bindings
