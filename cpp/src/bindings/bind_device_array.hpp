// Arrays in device memory, as Python hands them over and takes them.
#pragma once

#include "bind_host_array.hpp"
#include "trtw/detail/stream.hpp"
#include "trtw/memory.hpp"
#include "trtw/tensor.hpp"

#include <cuda_runtime_api.h>
#include <pybind11/numpy.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace trtw::bindings {

/// Somebody outside who reads a block until this goes: what its stream was given by then is waited for before the block
/// is written again.
class Reading {
public:
    /// A thread's default stream stands for the legacy one, which comes after it: by then, it would be that of whoever
    /// lets go.
    Reading(std::shared_ptr<DeviceMemory> block, int device, std::optional<cudaStream_t> stream)
        : block_{std::move(block)}, device_{device},
          stream_{stream == cudaStreamPerThread ? cudaStreamLegacy : stream} {}
    ~Reading() {
        if (stream_) {
            block_->readers().add(device_, *stream_);
        }
    }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

private:
    std::shared_ptr<DeviceMemory> block_;
    int device_;
    std::optional<cudaStream_t> stream_;
};

/// An array that this module made. Complete, unless it has an event.
struct DeviceArray {
    std::shared_ptr<DeviceMemory> block;
    Shape shape;
    std::string dtype; ///< numpy's name, or "bfloat16", "fp8"
    std::size_t bytes = 0;
    int device = 0;
    /// Whoever took __cuda_array_interface__: it keeps the array, and tells no stream.
    mutable std::shared_ptr<Reading> interface_reader = {};
    /// Comes after what writes the array, on this stream; other streams have to wait for it.
    std::shared_ptr<const Event> done = {};
    cudaStream_t stream = nullptr;
};

/// An array that somebody else made, seen through __cuda_array_interface__ or DLPack.
struct ForeignArray {
    const void* data = nullptr;
    Shape shape;
    std::string dtype;
    bool contiguous = true;
    std::optional<int> device;            ///< where its owner tells
    std::optional<cudaStream_t> producer; ///< its work so far writes the array
    pybind11::object keep;                ///< keeps the memory alive
};

/// nullopt where the object is no array on a GPU. Where the owner can, it makes `consumer` wait for what writes the
/// array; else there is a producer. Throws UsageProblem where its description is broken.
std::optional<ForeignArray> foreign_array(const pybind11::handle& value, cudaStream_t consumer);

/// The stream that a caller names: by its handle (0: the legacy default stream), or an object of PyTorch, CuPy, Numba
/// or cuda-python; nullopt for None. Throws UsageProblem for anything else.
std::optional<cudaStream_t> stream_of(pybind11::handle stream);

/// numpy's type for a tensor's dtype: bfloat16 is uint16 there, eight-bit floats are uint8.
pybind11::dtype numpy_dtype(const std::string& name);

/// A new array in the host's memory.
pybind11::array new_array(const std::string& dtype, const Shape& shape);

/// A writable array over memory that `owner` keeps; the owner goes with the last view of it.
template <class Owner>
pybind11::array array_over(const pybind11::dtype& dtype, const Shape& shape, void* data, std::unique_ptr<Owner> owner) {
    const pybind11::capsule base(owner.get(), [](void* pointer) { delete static_cast<Owner*>(pointer); });
    static_cast<void>(owner.release()); // NOLINT(bugprone-unused-return-value): the capsule owns it now
    return {dtype, std::vector<pybind11::ssize_t>(shape.begin(), shape.end()), data, base};
}

pybind11::tuple shape_tuple(const Shape& shape);

/// Whether a value is of the bound class. pybind11's own test looks the class up by its name every time.
template <class Bound>
bool is_a(pybind11::handle value) {
    static auto* const type = reinterpret_cast<PyTypeObject*>(pybind11::type::of<Bound>().release().ptr());
    return PyObject_TypeCheck(value.ptr(), type) != 0;
}

void bind_device_array(pybind11::module_& m);

} // namespace trtw::bindings
