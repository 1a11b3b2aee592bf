// Deserialised plans.
#include "bind_device_array.hpp"
#include "bind_options.hpp"
#include "bind_runner_call.hpp"
#include "bindings.hpp"
#include "trt/regular_file.hpp"
#include "trtw/error.hpp"

#include <NvInferRuntime.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <utility>
#include <variant>

namespace py = pybind11;

namespace trtw::bindings {

/// None is the default place.
template <>
struct Argument<std::filesystem::path> {
    using Given = std::optional<std::filesystem::path>;
    static std::filesystem::path of(const Given& given, const char* /*name*/) {
        return given.value_or(std::filesystem::path{});
    }
    static Given shown(const std::filesystem::path& /*value*/) { return std::nullopt; }
};

template <>
struct Argument<std::optional<WeightBudget>> {
    using Given = std::optional<std::variant<std::int64_t, std::string>>;
    static std::optional<WeightBudget> of(const Given& given, const char* name) {
        if (!given) {
            return std::nullopt;
        }
        if (const auto* word = std::get_if<std::string>(&*given)) {
            if (*word != "auto") {
                throw UsageProblem(std::string{name} + " is 'auto' or a number of bytes, not '" + *word + "'.");
            }
            return WeightBudget::automatic;
        }
        const std::int64_t bytes = std::get<std::int64_t>(*given);
        if (bytes < 0) {
            throw UsageProblem(std::string{name} + " is a number of bytes, not " + std::to_string(bytes) + ".");
        }
        return WeightBudget{bytes};
    }
    static Given shown(const std::optional<WeightBudget>& /*value*/) { return std::nullopt; }
};

namespace {

using PlanPointer = std::shared_ptr<Plan>;

PlanPointer load_bytes(PlanOptions options, const py::buffer& plan) {
    const py::buffer_info bytes = plan.request();
    if (bytes.ndim != 1 || (bytes.size > 0 && bytes.strides[0] != bytes.itemsize)) {
        throw UsageProblem("A plan must be contiguous bytes.");
    }
    const std::span<const std::byte> view{static_cast<const std::byte*>(bytes.ptr),
                                          static_cast<std::size_t>(bytes.size * bytes.itemsize)};
    const py::gil_scoped_release unlocked;
    return Plan::load(view, options);
}

PlanPointer load_file(PlanOptions options, const std::filesystem::path& path) {
    const py::gil_scoped_release unlocked;
    return Plan::load(RegularFile{path, "The engine file"}.read().span(), options);
}

py::tuple ranges_tuple(const std::vector<ProfileRange>& ranges) {
    py::tuple result(ranges.size());
    for (std::size_t p = 0; p < ranges.size(); ++p) {
        result[p] = py::make_tuple(shape_tuple(ranges[p].min), shape_tuple(ranges[p].opt), shape_tuple(ranges[p].max));
    }
    return result;
}

py::tuple tensors_tuple(const std::vector<TensorInfo>& tensors) {
    py::tuple result(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        result[i] = py::cast(tensors[i]);
    }
    return result;
}

void bind_tensor(py::module_& m) {
    py::class_<TensorInfo>(m, "EngineTensor", "An input or output of an engine.")
        .def_readonly("name", &TensorInfo::name)
        .def_readonly("is_input", &TensorInfo::is_input)
        .def_readonly("dtype", &TensorInfo::dtype)
        .def_property_readonly("shape", [](const TensorInfo& t) { return shape_tuple(t.shape); })
        .def_property_readonly("location", [](const TensorInfo& t) { return t.on_host ? "host" : "device"; })
        .def_readonly("is_shape_tensor", &TensorInfo::is_shape_tensor)
        .def_readonly("is_linear", &TensorInfo::is_linear)
        .def_readonly("format", &TensorInfo::format)
        .def_property_readonly("aliased_input", [](const TensorInfo& t) { return text_or_none(t.aliased_input); })
        .def_property_readonly("profiles", [](const TensorInfo& t) { return ranges_tuple(t.profiles); })
        .def_property_readonly("values", [](const TensorInfo& t) { return ranges_tuple(t.values); })
        .def("__repr__", [](const TensorInfo& t) {
            return "EngineTensor(" + t.name + " " + t.dtype + " " + trtw::bracketed(t.shape) + ")";
        });
}

} // namespace

void bind_engine(py::module_& m) {
    bind_tensor(m);
    py::class_<Plan, PlanPointer> engine(
        m, "Engine", "A deserialised plan. A plan is executable code: load none whose origin you do not trust.");
    const auto load_by = [&](auto load, auto define) {
        pass_options(load, define
#define TRTW_OPTION(name, value, doc, ...) , Field<PlanOptions, __VA_ARGS__>{#name, &PlanOptions::name, doc}
#include "trtw/plan_options.def"
#undef TRTW_OPTION
        );
    };
    load_by(&load_bytes, [&](const auto& load, const auto&... options) {
        engine.def(py::init(load), py::arg("plan"), py::kw_only(), options.argument()...);
    });
    load_by(&load_file, [&](const auto& load, const auto&... options) {
        engine.def_static("from_file", load, py::arg("path"), py::kw_only(), options.argument()...);
    });
    engine.def_property_readonly("tensors", [](const Plan& p) { return tensors_tuple(p.tensors()); })
        .def_property_readonly("inputs", [](const Plan& p) { return tensors_tuple(p.inputs()); })
        .def_property_readonly("outputs", [](const Plan& p) { return tensors_tuple(p.outputs()); })
        .def_property_readonly("num_profiles", &Plan::num_profiles)
        .def_property_readonly("num_layers", [](const Plan& p) { return p.engine().getNbLayers(); })
        .def_property_readonly("name",
                               [](const Plan& p) {
                                   const char* name = p.engine().getName();
                                   return std::string{name != nullptr ? name : ""};
                               })
        .def_property_readonly("device_memory_bytes", &Plan::device_memory_bytes)
        .def_property_readonly("device", &Plan::device)
        .def_property_readonly("metadata", &Plan::metadata);
}

} // namespace trtw::bindings
