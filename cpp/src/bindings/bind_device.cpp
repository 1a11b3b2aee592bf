// The machine's GPUs, and arrays on them.
#include "bindings.hpp"

#ifdef TRTW_WITH_CUDA
#include "bind_device_array.hpp"
#include "device/status.hpp"
#include "trtw/error.hpp"
#include "trtw/memory.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#endif

namespace py = pybind11;

namespace trtw::bindings {

#ifdef TRTW_WITH_CUDA

namespace {

py::object version_or_none(int number) {
    return number == 0 ? py::object(py::none())
                       : py::str(std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10));
}

py::dict cuda_status() {
    DeviceStatus status;
    {
        const py::gil_scoped_release unlocked;
        status = trtw::device_status();
    }
    py::dict result;
    result["ok"] = status.ok;
    result["device_count"] = status.device_count;
    result["driver_version"] = version_or_none(status.driver_version);
    result["runtime_version"] = version_or_none(status.runtime_version);
    result["error"] = text_or_none(status.error);
    return result;
}

py::list devices(std::optional<int> only) {
    std::vector<DeviceInfo> found;
    {
        const py::gil_scoped_release unlocked;
        found = trtw::devices(only);
    }
    py::list result;
    for (const DeviceInfo& info : found) {
        py::dict device;
        device["index"] = info.index;
        device["name"] = info.name;
        device["compute_capability"] = std::to_string(info.major) + "." + std::to_string(info.minor);
        device["memory_total_bytes"] = info.memory_total_bytes;
        device["memory_free_bytes"] = info.memory_free_bytes;
        device["multiprocessors"] = info.multiprocessors;
        device["l2_bytes"] = info.l2_bytes;
        device["uuid"] = info.uuid;
        device["pci_id"] = info.pci_id;
        result.append(device);
    }
    return result;
}

py::array pinned_empty(const Shape& shape, const py::object& dtype) {
    const py::dtype type = py::dtype::from_args(dtype);
    // numpy gives strings of no length one character each, for which there would be no memory
    if (type.itemsize() == 0 || type.attr("hasobject").cast<bool>()) {
        throw UsageProblem("Page-locked memory holds only numbers; the dtype " + py::str(type).cast<std::string>() +
                           " is not numeric.");
    }
    auto bytes = static_cast<std::size_t>(type.itemsize());
    for (const std::int64_t dim : shape) {
        if (dim < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(dim), &bytes)) {
            throw UsageProblem("An array cannot have the shape " + py::str(py::cast(shape)).cast<std::string>() + ".");
        }
    }
    std::unique_ptr<PinnedMemory> memory;
    {
        const py::gil_scoped_release unlocked;
        memory = std::make_unique<PinnedMemory>(bytes);
    }
    void* data = memory->data();
    return array_over(type, shape, data, std::move(memory));
}

} // namespace

void bind_device(py::module_& m) {
    m.def("cuda_status", &cuda_status, "Returns whether a GPU can be used, and why not. Never raises.");
    m.def("devices", &devices, py::arg("only") = py::none(),
          "Returns every visible GPU, or one of them.\n\nRaises:\n    DeviceFailure: The driver failed.");
    m.def("pinned_empty", &pinned_empty, py::arg("shape"), py::arg("dtype") = "uint8",
          "Returns an uninitialised array in page-locked memory.");
    m.def("profiler_start", &trtw::profiler_start, "Begins the range that Nsight records.");
    m.def("profiler_stop", &trtw::profiler_stop, "Ends that range.");
    bind_device_array(m);
}

#else

// Without CUDA this build knows no devices; Python reports what the build lacks.
void bind_device(py::module_& /*m*/) {}

#endif

} // namespace trtw::bindings
