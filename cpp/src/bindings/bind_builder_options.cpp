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
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace trtw::bindings {

namespace {

using Dims = std::vector<std::int64_t>;
using Ranges = std::map<std::string, std::tuple<Dims, Dims, Dims>>;

// What Python writes for options that are enumerations here.
const std::tuple option_words{
    Names<CalibrationAlgorithm>{{"entropy2", CalibrationAlgorithm::entropy2}, {"minmax", CalibrationAlgorithm::minmax}},
    Names<PrecisionConstraints>{{"none", PrecisionConstraints::none},
                                {"prefer", PrecisionConstraints::prefer},
                                {"obey", PrecisionConstraints::obey}},
    Names<TilingLevel>{{"none", TilingLevel::none},
                       {"fast", TilingLevel::fast},
                       {"moderate", TilingLevel::moderate},
                       {"full", TilingLevel::full}},
    Names<HardwareCompatibility>{{"none", HardwareCompatibility::none},
                                 {"ampere_plus", HardwareCompatibility::ampere_plus},
                                 {"same_compute_capability", HardwareCompatibility::same_compute_capability}},
    Names<RefitKind>{{"none", RefitKind::none},
                     {"full", RefitKind::full},
                     {"identical", RefitKind::identical},
                     {"individual", RefitKind::individual}},
    Names<ProfilingVerbosity>{{"none", ProfilingVerbosity::none},
                              {"layer_names_only", ProfilingVerbosity::layer_names_only},
                              {"detailed", ProfilingVerbosity::detailed}},
};

template <class Enum>
const Names<Enum>& words() {
    return std::get<Names<Enum>>(option_words);
}

Bytes bytes_of(const py::bytes& given) {
    const auto view = std::as_bytes(std::span{static_cast<std::string_view>(given)});
    return {view.begin(), view.end()};
}

std::map<std::string, ProfileRange> from_python(const Ranges& ranges) {
    std::map<std::string, ProfileRange> made;
    for (const auto& [name, range] : ranges) {
        made[name] = {std::get<0>(range), std::get<1>(range), std::get<2>(range)};
    }
    return made;
}

py::object to_python(const std::map<std::string, ProfileRange>& ranges) {
    const py::dict copy;
    for (const auto& [name, range] : ranges) {
        copy[py::str(name)] = py::make_tuple(tuple_of(range.min), tuple_of(range.opt), tuple_of(range.max));
    }
    return read_only(copy);
}

void bind_profile(py::module_& m) {
    using Member = std::map<std::string, ProfileRange> Profile::*;
    const auto get = [](Member member) { return [member](const Profile& self) { return to_python(self.*member); }; };
    const auto set = [](Member member) {
        return [member](Profile& self, const Ranges& ranges) { self.*member = from_python(ranges); };
    };
    py::class_<Profile>(m, "Profile",
                        "The range of input shapes that an engine accepts and is tuned for.\n\n"
                        "`shapes` maps an input's name to (min, opt, max), each a sequence of dimensions; `values` "
                        "does so for the values of shape tensors. Both are read-only; assign whole mappings.")
        .def(py::init([](const Ranges& shapes, const Ranges& values) {
                 return Profile{from_python(shapes), from_python(values)};
             }),
             py::kw_only(), py::arg("shapes") = py::dict(), py::arg("values") = py::dict())
        .def_property("shapes", get(&Profile::shapes), set(&Profile::shapes))
        .def_property("values", get(&Profile::values), set(&Profile::values))
        .def("__eq__", [](const Profile& self, const Profile& other) { return self == other; }, py::is_operator());
}

void bind_calibration(py::module_& m) {
    py::class_<Calibration, std::shared_ptr<Calibration>>(
        m, "Calibration",
        "What an INT8 calibrator is fed with (TensorRT 8 and 10).\n\n"
        "Args:\n    algorithm: \"entropy2\" for convolutional networks, \"minmax\" for transformers.\n"
        "    batches: called once, in the thread that builds; returns an iterable of batches, each a mapping of every "
        "input's name to a C-contiguous array of the input's dtype, all of one shape.\n"
        "    cache: bytes of an earlier calibration; the batches are then not read.")
        .def(py::init([](const std::string& algorithm, std::optional<py::function> batches,
                         const std::optional<py::bytes>& cache) {
                 auto made = std::make_shared<Calibration>();
                 made->algorithm = words<CalibrationAlgorithm>().at(algorithm, "algorithm");
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
        .def_property_readonly(
            "algorithm", [](const Calibration& self) { return words<CalibrationAlgorithm>().of(self.algorithm); });
}

using Options = py::class_<BuildOptions>;

// How a field looks from Python, by its type; a plain value first. A word that there is not is refused when it is set.
template <class Type>
void bind_field(Options& options, const char* name, Type BuildOptions::* member, const char* doc) {
    options.def_readwrite(name, member, doc);
}

template <class Enum>
    requires std::is_enum_v<Enum>
void bind_field(Options& options, const char* name, Enum BuildOptions::* member, const char* doc) {
    options.def_property(
        name, [member](const BuildOptions& self) { return words<Enum>().of(self.*member); },
        [name, member](BuildOptions& self, const std::string& word) { self.*member = words<Enum>().at(word, name); },
        doc);
}

template <class Enum>
    requires std::is_enum_v<Enum>
void bind_field(Options& options, const char* name, std::optional<Enum> BuildOptions::* member, const char* doc) {
    options.def_property(
        name,
        [member](const BuildOptions& self) {
            return self.*member ? std::optional{words<Enum>().of(*(self.*member))} : std::nullopt;
        },
        [name, member](BuildOptions& self, const std::optional<std::string>& word) {
            self.*member = word ? std::optional{words<Enum>().at(*word, name)} : std::nullopt;
        },
        doc);
}

template <class Value>
void bind_field(Options& options, const char* name, std::map<std::string, Value> BuildOptions::* member,
                const char* doc) {
    options.def_property(
        name, [member](const BuildOptions& self) { return mapping_of(self.*member); },
        [member](BuildOptions& self, std::map<std::string, Value> given) { self.*member = std::move(given); }, doc);
}

template <class Element>
void bind_field(Options& options, const char* name, std::vector<Element> BuildOptions::* member, const char* doc) {
    options.def_property(
        name, [member](const BuildOptions& self) { return tuple_of(self.*member); },
        [member](BuildOptions& self, std::vector<Element> given) { self.*member = std::move(given); }, doc);
}

// As a dict, whose order is that of the rules.
void bind_field(Options& options, const char* name, std::vector<LayerRule> BuildOptions::* member, const char* doc) {
    options.def_property(
        name,
        [member](const BuildOptions& self) {
            const py::dict copy;
            for (const LayerRule& rule : self.*member) {
                copy[py::str(rule.pattern)] = rule.dtype;
            }
            return read_only(copy);
        },
        [member](BuildOptions& self, const py::dict& given) {
            std::vector<LayerRule> made;
            for (const auto& [pattern, dtype] : given) {
                made.push_back({pattern.cast<std::string>(), dtype.cast<std::string>()});
            }
            self.*member = std::move(made);
        },
        doc);
}

void bind_field(Options& options, const char* name, std::optional<Bytes> BuildOptions::* member, const char* doc) {
    options.def_property(
        name,
        [member](const BuildOptions& self) {
            const auto& bytes = self.*member;
            return bytes ? std::optional{py::bytes(reinterpret_cast<const char*>(bytes->data()), bytes->size())}
                         : std::nullopt;
        },
        [member](BuildOptions& self, const std::optional<py::bytes>& given) {
            self.*member = given ? std::optional{bytes_of(*given)} : std::nullopt;
        },
        doc);
}

void bind_field(Options& options, const char* name, std::shared_ptr<const Calibration> BuildOptions::* member,
                const char* doc) {
    options.def_property(
        name, [member](const BuildOptions& self) { return std::const_pointer_cast<Calibration>(self.*member); },
        [member](BuildOptions& self, std::shared_ptr<Calibration> value) { self.*member = std::move(value); }, doc);
}

void bind_build_options(py::module_& m) {
    Options options(m, "BuildOptions",
                    "Everything that can be asked of a build; None leaves TensorRT's default.\n\n"
                    "Containers are read-only; assign whole ones. An unknown attribute is an AttributeError.");
    options.def(py::init<>());
#define TRTW_OPTION(name, value, doc, ...) bind_field(options, #name, &BuildOptions::name, doc);
#include "trtw/build_options.def"
#undef TRTW_OPTION
    options.def(
        "validate",
        [](const BuildOptions& self) {
            trtw::validate(self);
            trtw::check_supported(self);
            trtw::check_precision_supported(self);
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
