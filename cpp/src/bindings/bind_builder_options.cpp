// Profile, Calibration and BuildOptions.
#include "bind_builder.hpp"
#include "bind_builder_calibration.hpp"
#include "bind_builder_convert.hpp"

#include "build/builder_config.hpp"
#include "build/precision.hpp"
#include "trt/names.hpp"
#include "trtw/build_options.hpp"
#include "trtw/error.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace py = pybind11;
namespace te = trtw::engine;

namespace trtw::bindings {

namespace {

using Dims = std::vector<std::int64_t>;
using Ranges = std::map<std::string, std::tuple<Dims, Dims, Dims>>;

// What Python writes for options that are enumerations here.
const te::Names<te::CalibrationAlgorithm> algorithm_words = {
    {"entropy2", te::CalibrationAlgorithm::entropy2},
    {"minmax", te::CalibrationAlgorithm::minmax},
};
const te::Names<te::PrecisionConstraints> constraint_words = {
    {"none", te::PrecisionConstraints::none},
    {"prefer", te::PrecisionConstraints::prefer},
    {"obey", te::PrecisionConstraints::obey},
};
const te::Names<te::TilingLevel> tiling_words = {
    {"none", te::TilingLevel::none},
    {"fast", te::TilingLevel::fast},
    {"moderate", te::TilingLevel::moderate},
    {"full", te::TilingLevel::full},
};
const te::Names<te::HardwareCompatibility> compatibility_words = {
    {"none", te::HardwareCompatibility::none},
    {"ampere_plus", te::HardwareCompatibility::ampere_plus},
    {"same_compute_capability", te::HardwareCompatibility::same_compute_capability},
};
const te::Names<te::RefitKind> refit_words = {
    {"none", te::RefitKind::none},
    {"full", te::RefitKind::full},
    {"identical", te::RefitKind::identical},
    {"individual", te::RefitKind::individual},
};
const te::Names<te::ProfilingVerbosity> profiling_words = {
    {"none", te::ProfilingVerbosity::none},
    {"layer_names_only", te::ProfilingVerbosity::layer_names_only},
    {"detailed", te::ProfilingVerbosity::detailed},
};

std::map<std::string, te::ProfileRange> from_python(const Ranges& ranges) {
    std::map<std::string, te::ProfileRange> made;
    for (const auto& [name, range] : ranges) {
        made[name] = {std::get<0>(range), std::get<1>(range), std::get<2>(range)};
    }
    return made;
}

py::object to_python(const std::map<std::string, te::ProfileRange>& ranges) {
    const py::dict copy;
    for (const auto& [name, range] : ranges) {
        copy[py::str(name)] = py::make_tuple(tuple_of(range.min), tuple_of(range.opt), tuple_of(range.max));
    }
    return read_only(copy);
}

void bind_profile(py::module_& m) {
    using Member = std::map<std::string, te::ProfileRange> te::Profile::*;
    const auto get = [](Member member) {
        return [member](const te::Profile& self) { return to_python(self.*member); };
    };
    const auto set = [](Member member) {
        return [member](te::Profile& self, const Ranges& ranges) { self.*member = from_python(ranges); };
    };
    py::class_<te::Profile>(m, "Profile",
                            "The range of input shapes that an engine accepts and is tuned for.\n\n"
                            "`shapes` maps an input's name to (min, opt, max), each a sequence of dimensions; `values` "
                            "does so for the values of shape tensors. Both are read-only; assign whole mappings.")
        .def(py::init([](const Ranges& shapes, const Ranges& values) {
                 return te::Profile{from_python(shapes), from_python(values)};
             }),
             py::kw_only(), py::arg("shapes") = py::dict(), py::arg("values") = py::dict())
        .def_property("shapes", get(&te::Profile::shapes), set(&te::Profile::shapes))
        .def_property("values", get(&te::Profile::values), set(&te::Profile::values))
        .def(
            "__eq__", [](const te::Profile& self, const te::Profile& other) { return self == other; },
            py::is_operator());
}

void bind_calibration(py::module_& m) {
    py::class_<te::Calibration, std::shared_ptr<te::Calibration>>(
        m, "Calibration",
        "What an INT8 calibrator is fed with (TensorRT 8 and 10).\n\n"
        "Args:\n    algorithm: \"entropy2\" for convolutional networks, \"minmax\" for transformers.\n"
        "    batches: called once, in the thread that builds; returns an iterable of batches, each a mapping of every "
        "input's name to a C-contiguous array of the input's dtype, all of one shape.\n"
        "    cache: bytes of an earlier calibration; the batches are then not read.")
        .def(py::init([](const std::string& algorithm, std::optional<py::function> batches,
                         const std::optional<py::bytes>& cache) {
                 auto made = std::make_shared<te::Calibration>();
                 made->algorithm = algorithm_words.at(algorithm, "algorithm");
                 if (batches) {
                     made->open = python_batches(std::move(*batches));
                 }
                 if (cache) {
                     made->cache = static_cast<std::string>(*cache);
                 }
                 return made;
             }),
             py::kw_only(), py::arg("algorithm") = "entropy2", py::arg("batches") = py::none(),
             py::arg("cache") = py::none())
        .def_property_readonly("algorithm",
                               [](const te::Calibration& self) { return algorithm_words.of(self.algorithm); });
}

// What differs from a plain value on the Python side.
void bind_containers(py::class_<te::BuildOptions>& options) {
    const auto mapping = [&options](const char* name, auto member) {
        options.def_property(
            name, [member](const te::BuildOptions& self) { return mapping_of(self.*member); },
            [member](te::BuildOptions& self, std::decay_t<decltype(std::declval<te::BuildOptions>().*member)> values) {
                self.*member = std::move(values);
            });
    };
    const auto sequence = [&options](const char* name, auto member) {
        options.def_property(
            name, [member](const te::BuildOptions& self) { return tuple_of(self.*member); },
            [member](te::BuildOptions& self, std::decay_t<decltype(std::declval<te::BuildOptions>().*member)> values) {
                self.*member = std::move(values);
            });
    };
    mapping("memory_pools", &te::BuildOptions::memory_pools);
    mapping("tactic_sources", &te::BuildOptions::tactic_sources);
    mapping("preview_features", &te::BuildOptions::preview_features);
    mapping("io_types", &te::BuildOptions::io_types);
    mapping("io_formats", &te::BuildOptions::io_formats);
    sequence("profiles", &te::BuildOptions::profiles);
    sequence("plugins", &te::BuildOptions::plugins);
    sequence("plugins_to_serialize", &te::BuildOptions::plugins_to_serialize);
    // As a dict, whose order is that of the rules.
    const auto rules = [&options](const char* name, std::vector<te::LayerRule> te::BuildOptions::* member) {
        options.def_property(
            name,
            [member](const te::BuildOptions& self) {
                const py::dict copy;
                for (const te::LayerRule& rule : self.*member) {
                    copy[py::str(rule.pattern)] = rule.dtype;
                }
                return read_only(copy);
            },
            [member](te::BuildOptions& self, const py::dict& given) {
                std::vector<te::LayerRule> made;
                for (const auto& [pattern, dtype] : given) {
                    made.push_back({pattern.cast<std::string>(), dtype.cast<std::string>()});
                }
                self.*member = std::move(made);
            });
    };
    rules("layer_precisions", &te::BuildOptions::layer_precisions);
    rules("layer_output_types", &te::BuildOptions::layer_output_types);
    options.def_property(
        "timing_cache",
        [](const te::BuildOptions& self) -> std::optional<py::bytes> {
            return self.timing_cache ? std::optional{py::bytes(*self.timing_cache)} : std::nullopt;
        },
        [](te::BuildOptions& self, const std::optional<py::bytes>& bytes) {
            self.timing_cache.reset();
            if (bytes) {
                self.timing_cache = static_cast<std::string>(*bytes);
            }
        });
    options.def_property(
        "calibration",
        [](const te::BuildOptions& self) { return std::const_pointer_cast<te::Calibration>(self.calibration); },
        [](te::BuildOptions& self, std::shared_ptr<te::Calibration> value) { self.calibration = std::move(value); });
}

// Options that are words in Python; a word that there is not is refused when it is set.
void bind_words(py::class_<te::BuildOptions>& options) {
    const auto word = [&options](const char* name, auto member, const auto& words) {
        options.def_property(
            name, [member, &words](const te::BuildOptions& self) { return words.of(self.*member); },
            [name, member, &words](te::BuildOptions& self, const std::string& given) {
                self.*member = words.at(given, name);
            });
    };
    word("precision_constraints", &te::BuildOptions::precision_constraints, constraint_words);
    word("hardware_compatibility", &te::BuildOptions::hardware_compatibility, compatibility_words);
    word("refit", &te::BuildOptions::refit, refit_words);
    word("profiling_verbosity", &te::BuildOptions::profiling_verbosity, profiling_words);
    options.def_property(
        "tiling_optimization_level",
        [](const te::BuildOptions& self) -> std::optional<std::string> {
            return self.tiling_optimization_level ? std::optional{tiling_words.of(*self.tiling_optimization_level)}
                                                  : std::nullopt;
        },
        [](te::BuildOptions& self, const std::optional<std::string>& given) {
            self.tiling_optimization_level =
                given ? std::optional{tiling_words.at(*given, "tiling_optimization_level")} : std::nullopt;
        });
}

void bind_build_options(py::module_& m) {
    py::class_<te::BuildOptions> options(
        m, "BuildOptions",
        "Everything that can be asked of a build; None leaves TensorRT's default.\n\n"
        "Containers are read-only; assign whole ones. An unknown attribute is an AttributeError.");
    options.def(py::init<>());
    const auto plain = [&options](const char* name, auto member) { options.def_readwrite(name, member); };
    plain("device", &te::BuildOptions::device);
    plain("fp16", &te::BuildOptions::fp16);
    plain("bf16", &te::BuildOptions::bf16);
    plain("int8", &te::BuildOptions::int8);
    plain("fp8", &te::BuildOptions::fp8);
    plain("int4", &te::BuildOptions::int4);
    plain("fp4", &te::BuildOptions::fp4);
    plain("tf32", &te::BuildOptions::tf32);
    plain("strongly_typed", &te::BuildOptions::strongly_typed);
    plain("sparse_weights", &te::BuildOptions::sparse_weights);
    plain("optimization_level", &te::BuildOptions::optimization_level);
    plain("avg_timing_iterations", &te::BuildOptions::avg_timing_iterations);
    plain("max_tactics", &te::BuildOptions::max_tactics);
    plain("max_aux_streams", &te::BuildOptions::max_aux_streams);
    plain("max_threads", &te::BuildOptions::max_threads);
    plain("build_route", &te::BuildOptions::build_route);
    plain("timing_cache_ignore_mismatch", &te::BuildOptions::timing_cache_ignore_mismatch);
    plain("disable_timing_cache", &te::BuildOptions::disable_timing_cache);
    plain("error_on_timing_cache_miss", &te::BuildOptions::error_on_timing_cache_miss);
    plain("editable_timing_cache", &te::BuildOptions::editable_timing_cache);
    plain("version_compatible", &te::BuildOptions::version_compatible);
    plain("exclude_lean_runtime", &te::BuildOptions::exclude_lean_runtime);
    plain("strip_weights", &te::BuildOptions::strip_weights);
    plain("weight_streaming", &te::BuildOptions::weight_streaming);
    plain("strict_nans", &te::BuildOptions::strict_nans);
    plain("distributive_independence", &te::BuildOptions::distributive_independence);
    plain("direct_io", &te::BuildOptions::direct_io);
    plain("native_instance_norm", &te::BuildOptions::native_instance_norm);
    plain("dla_core", &te::BuildOptions::dla_core);
    plain("gpu_fallback", &te::BuildOptions::gpu_fallback);
    bind_words(options);
    bind_containers(options);
    options.def(
        "validate",
        [](const te::BuildOptions& self) {
            te::validate(self);
            te::check_supported(self);
            te::check_precision_supported(self);
        },
        "Checks what can be checked without a model, a GPU or TensorRT's libraries.\n\n"
        "Raises:\n    UsageProblem: a range or a combination is wrong, or TensorRT's version lacks it.");
}

} // namespace

void bind_builder_options(py::module_& m) {
    bind_profile(m);
    bind_calibration(m);
    bind_build_options(m);
}

} // namespace trtw::bindings
