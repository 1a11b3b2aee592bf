// What an engine is made of, and new weights for it.
#include "bind_builder.hpp"
#include "bind_builder_convert.hpp"
#include "bind_device_array.hpp"

#include "trtw/error.hpp"
#include "trtw/inspect.hpp"
#include "trtw/refit.hpp"

#include <pybind11/numpy.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace py = pybind11;

namespace trtw::bindings {

namespace {

py::dict inspect_engine(const Plan& plan) {
    EngineDescription found;
    {
        const py::gil_scoped_release unlocked;
        found = trtw::inspect(plan);
    }
    py::dict description;
    description["name"] = found.name;
    description["tensorrt_version"] = found.tensorrt_version;
    description["layer_count"] = found.layer_count;
    description["profile_count"] = found.profile_count;
    description["device_memory_bytes"] = found.device_memory_bytes;
    description["aux_stream_count"] = found.aux_stream_count;
    description["refittable"] = found.refittable;
    description["hardware_compatibility"] = found.hardware_compatibility;
    description["profiling_verbosity"] = found.profiling_verbosity;
    description["engine_capability"] = found.engine_capability;
    description["tactic_sources"] = found.tactic_sources;
    description["streamable_weight_bytes"] = found.streamable_weight_bytes;
    description["layers_json"] = decoded(found.layers_json);
    return description;
}

py::bytes refit(const Plan& plan, const std::optional<py::object>& model,
                const std::optional<std::map<std::string, py::object>>& weights) {
    if (model.has_value() == weights.has_value()) {
        throw UsageProblem("Refit takes either a model or weights.");
    }
    SharedBytes bytes;
    if (model) {
        const std::string path = path_text(*model);
        const py::gil_scoped_release unlocked;
        bytes = trtw::refit_from_onnx(plan, path);
    } else {
        std::map<std::string, py::array> arrays; // row-major, and alive until TensorRT has read them
        std::map<std::string, WeightValues> values;
        for (const auto& [name, given] : *weights) {
            const py::array array = host_array(given, "Weight", name, true);
            arrays[name] = array;
            values[name] = {array.data(), array.dtype().attr("name").cast<std::string>(),
                            static_cast<std::size_t>(array.size())};
        }
        const py::gil_scoped_release unlocked;
        bytes = trtw::refit_from_values(plan, values);
    }
    return bytes_of(bytes);
}

std::vector<std::string> refittable_weights(const Plan& plan) {
    const py::gil_scoped_release unlocked;
    return trtw::refittable_weights(plan);
}

} // namespace

void bind_builder_engine(py::module_& m) {
    m.def("inspect_engine", &inspect_engine, py::arg("engine"),
          "Returns what an engine is made of; `layers_json` is the text of TensorRT's own engine inspector.\n\n"
          "Raises:\n    DeviceFailure: TensorRT cannot make an inspector.");
    m.def("refittable_weights", &refittable_weights, py::arg("engine"),
          "Returns the names of the weights that the engine lets replace.\n\n"
          "Raises:\n    UsageProblem: The engine is not refittable.");
    m.def("refit", &refit, py::arg("engine"), py::kw_only(), py::arg("model") = py::none(),
          py::arg("weights") = py::none(),
          "Puts new weights into a refittable engine and returns the plan that holds them.\n\n"
          "Args:\n    engine: The engine; it has the new weights afterwards.\n"
          "    model: Path of an ONNX model of the same structure (TensorRT 10 and later).\n"
          "    weights: Arrays by the weights' names, instead of a model.\n\n"
          "Raises:\n    UsageProblem: The engine is not refittable, the weights do not fit, or this version cannot.\n"
          "    ComponentMissing: The ONNX parser is absent.");
}

} // namespace trtw::bindings
