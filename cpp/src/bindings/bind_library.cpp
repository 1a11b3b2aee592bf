// TensorRT's libraries and log, for Python.
#include "bindings.hpp"

#include "trt/entry_points.hpp"
#include "trtw/library.hpp"

#ifdef TRTW_WITH_TENSORRT
#include "trt/logger.hpp"
#endif

#include <pybind11/stl.h>

#include <optional>

namespace py = pybind11;

namespace trtw::bindings {

namespace {

py::dict to_dict(const LibraryStatus& status) {
    py::dict found;
    found["available"] = status.available;
    found["version"] = text_or_none(status.version);
    found["headers"] = text_or_none(status.headers);
    found["libnvinfer"] = text_or_none(status.libnvinfer.string());
    found["parser"] = text_or_none(status.parser.string());
    found["plugin"] = text_or_none(status.plugin.string());
    found["error"] = text_or_none(status.error);
    found["notes"] = status.notes;
    found["mapped"] = trtw::mapped_tensorrt();
    return found;
}

py::dict tensorrt_status(const std::optional<std::string>& library_dir) {
    LibraryStatus status;
    {
        const py::gil_scoped_release unlocked;
        status = trtw::library_status(library_dir.value_or(""));
    }
#ifndef TRTW_WITH_TENSORRT
    if (status.available) {
        status.available = false;
#ifdef TRTW_WITH_CUDA
        status.error = "the core was built without TensorRT's headers, so it cannot use the library that was found; "
                       "run `setup-tensorrt` and `build-native`";
#else
        status.error = "the core was built without CUDA, which TensorRT needs; install the CUDA toolkit, then run "
                       "`build-native`";
#endif
    }
#endif
    return to_dict(status);
}

py::dict load_tensorrt(const std::optional<std::string>& library_dir, bool plugins) {
    LibraryStatus status;
    {
        const py::gil_scoped_release unlocked;
        status = trtw::load_library(library_dir.value_or(""), plugins);
    }
    return to_dict(status);
}

#ifdef TRTW_WITH_TENSORRT
py::list drain_log() {
    py::list lines;
    for (const LogLine& line : trtw::logger().buffer().drain()) {
        lines.append(py::make_tuple(std::string{trtw::severity_name(line.severity)},
                                    py::reinterpret_steal<py::object>(PyUnicode_DecodeUTF8(
                                        line.text.data(), static_cast<py::ssize_t>(line.text.size()), "replace"))));
    }
    return lines;
}

void set_log_level(const std::string& level) {
    trtw::logger().buffer().set_threshold(trtw::parse_severity(level));
}
#endif

} // namespace

void bind_library(py::module_& m) {
    m.def("tensorrt_status", &tensorrt_status, py::arg("library_dir") = py::none(),
          "Opens TensorRT if it can be found and describes it; `error` says why not. Never raises.\n\n"
          "Args:\n    library_dir: The only folder to search; by default $TENSORRT_HOME/lib, then the loader's path.");
    m.def("load_tensorrt", &load_tensorrt, py::arg("library_dir") = py::none(), py::arg("plugins") = true,
          "Opens TensorRT once for the whole process and returns its status.\n\n"
          "Raises:\n    ComponentMissing: libnvinfer is absent or is not of the major version of the core's headers.\n"
          "    UsageProblem: Another folder is already in use; a process can load only one TensorRT.");
#ifdef TRTW_WITH_TENSORRT
    m.def("drain_log", &drain_log, "Returns TensorRT's log lines since the last call, as (severity, text) pairs.");
    m.def("set_log_level", &set_log_level, py::arg("level"),
          "Sets the lowest severity that is kept: internal_error, error, warning, info (default) or verbose.");
#endif
}

} // namespace trtw::bindings
