#include "bind_builder_calibration.hpp"

#include "bind_device_array.hpp"
#include "trtw/error.hpp"

#include <pybind11/numpy.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

namespace py = pybind11;

namespace trtw::bindings {

namespace {

// A Python object that may lose its last owner in a thread without the interpreter lock.
template <class Object>
std::shared_ptr<Object> shared(Object object) {
    return {new Object(std::move(object)), [](Object* held) { // NOLINT(cppcoreguidelines-owning-memory)
                const py::gil_scoped_acquire locked;
                delete held; // NOLINT(cppcoreguidelines-owning-memory)
            }};
}

// One pass over the batches; keeps the arrays of the batch that was last handed out.
class Pass {
public:
    explicit Pass(const py::object& batches) : iterator_{py::iter(batches)} {}

    bool next(CalibrationBatch& batch) {
        arrays_.clear();
        const auto item = py::reinterpret_steal<py::object>(PyIter_Next(iterator_.ptr()));
        if (!item) {
            if (PyErr_Occurred() != nullptr) {
                throw py::error_already_set();
            }
            return false;
        }
        for (const py::handle pair : item.attr("items")()) {
            const auto [name, given] = pair.cast<std::pair<std::string, py::object>>();
            batch[name] = tensor(name, given);
        }
        return true;
    }

private:
    CalibrationTensor tensor(const std::string& name, const py::object& given) {
        const py::array array = host_array(given, "Calibration batch, input", name, true);
        arrays_[name] = array;
        return {array.data(),
                static_cast<std::size_t>(array.nbytes()),
                array.dtype().attr("name").cast<std::string>(),
                {array.shape(), array.shape() + array.ndim()}};
    }

    py::iterator iterator_;
    std::map<std::string, py::array> arrays_;
};

} // namespace

std::function<BatchSource()> python_batches(py::function batches) {
    return [call = shared(std::move(batches))]() -> BatchSource {
        const py::gil_scoped_acquire locked;
        return [pass = shared(Pass{(*call)()})](CalibrationBatch& batch) {
            const py::gil_scoped_acquire lock;
            return pass->next(batch);
        };
    };
}

} // namespace trtw::bindings
