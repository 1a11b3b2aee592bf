// Without CUDA there is nothing here: the file is part of every build.
#ifdef TRTW_WITH_CUDA
#include "bind_device_array.hpp"

#include "device/scope.hpp"
#include "dlpack_exchange.hpp"
#include "run/host_array.hpp"

#include <dlpack/dlpack.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace py = pybind11;

namespace trtw::bindings {

namespace {

struct TypeEntry {
    std::string_view name;
    char kind; ///< numpy's, for __cuda_array_interface__; 0 where numpy lacks the type
    int bytes;
    std::uint8_t dlpack;
    int numpy; ///< type number of the array that holds it
};

using Api = py::detail::npy_api;
constexpr int half_number = 23; // NPY_HALF, which pybind11 does not name

constexpr const char* capsule_name = "dltensor"; // until a consumer has taken it

// The attribute of this name, which was made once; None where there is none.
py::object attribute(py::handle value, py::handle name) {
    return py::getattr(value, name, py::none());
}

constexpr std::array<TypeEntry, 11> types = {{
    {"float32", 'f', 4, kDLFloat, Api::NPY_FLOAT_},
    {"float16", 'f', 2, kDLFloat, half_number},
    {"float64", 'f', 8, kDLFloat, Api::NPY_DOUBLE_}, // no engine takes it: for a plain refusal
    {"int8", 'i', 1, kDLInt, Api::NPY_BYTE_},
    {"int32", 'i', 4, kDLInt, Api::NPY_INT_},
    {"int64", 'i', 8, kDLInt, Api::NPY_LONG_},
    {"uint8", 'u', 1, kDLUInt, Api::NPY_UBYTE_},
    {"bool", 'b', 1, kDLBool, Api::NPY_BOOL_},
    {"bfloat16", 0, 2, kDLBfloat, Api::NPY_USHORT_},
    {"fp8", 0, 1, kDLFloat8_e4m3fn, Api::NPY_UBYTE_},
    {"e8m0", 0, 1, kDLFloat8_e8m0fnu, Api::NPY_UBYTE_},
}};

const TypeEntry* find(std::string_view name) {
    for (const TypeEntry& entry : types) {
        if (entry.name == name) {
            return &entry;
        }
    }
    return nullptr;
}

// ---- streams -----------------------------------------------------------------------------------------

// As CUDA, DLPack and __cuda_array_interface__ number them; 0 is the legacy default stream where it may be had at all.
cudaStream_t stream_of_handle(std::intptr_t handle) {
    if (handle == 0 || handle == 1) {
        return cudaStreamLegacy;
    }
    if (handle == 2) {
        return cudaStreamPerThread;
    }
    return reinterpret_cast<cudaStream_t>(handle); // NOLINT(performance-no-int-to-ptr)
}

std::intptr_t handle_of_stream(cudaStream_t stream) {
    if (stream == cudaStreamLegacy) {
        return 1;
    }
    return stream == cudaStreamPerThread ? 2 : reinterpret_cast<std::intptr_t>(stream);
}

// Makes a stream wait for what writes the array. A thread's default stream may be that of another thread.
void wait_for(const DeviceArray& array, cudaStream_t stream) {
    if (array.done && (stream != array.stream || stream == cudaStreamPerThread)) {
        const DeviceScope scope{array.device};
        array.done->make_wait(stream);
    }
}

// ---- what this module hands out ----------------------------------------------------------------------

py::dict cuda_array_interface(const DeviceArray& array) {
    const TypeEntry* type = find(array.dtype);
    if (type == nullptr || type->kind == 0) {
        throw py::attribute_error("numpy has no " + array.dtype +
                                  ", so __cuda_array_interface__ cannot describe it; use DLPack");
    }
    if (!array.interface_reader) {
        array.interface_reader = std::make_shared<Reading>(array.block, array.device, cudaStreamLegacy);
    }
    py::dict description;
    description["shape"] = shape_tuple(array.shape);
    description["typestr"] = std::string{type->bytes == 1 ? '|' : '<'} + type->kind + std::to_string(type->bytes);
    description["data"] = py::make_tuple(reinterpret_cast<std::uintptr_t>(array.block->data()), false);
    description["strides"] = py::none();
    description["version"] = 3;
    // The legacy default stream comes after a thread's own one, which would be that of whoever asks.
    const cudaStream_t stream = array.stream == cudaStreamPerThread ? cudaStreamLegacy : array.stream;
    description["stream"] = array.done ? py::object(py::int_(handle_of_stream(stream))) : py::none();
    return description;
}

// Freed by whoever takes the array, in any thread and without the GIL.
struct Exported {
    Exported(const DeviceArray& array, std::optional<cudaStream_t> stream)
        : reading{array.block, array.device, stream}, shape{array.shape} {}
    DLManagedTensor managed{};
    Reading reading;
    Shape shape;
};

// The stream on which a consumer says that it will read; nullopt where it takes care of the order itself.
std::optional<cudaStream_t> consumer_of(const py::object& stream) {
    const auto handle = stream.is_none() ? std::intptr_t{1} : stream.cast<std::intptr_t>();
    return handle == -1 ? std::nullopt : std::optional{stream_of_handle(handle)};
}

py::capsule to_dlpack(const DeviceArray& array, const py::object& stream, const py::object& /*max_version*/,
                      const std::optional<std::pair<int, int>>& device, std::optional<bool> copy) {
    const TypeEntry* type = find(array.dtype);
    const std::pair<int, int> here{kDLCUDA, array.device};
    if (type == nullptr || copy.value_or(false) || device.value_or(here) != here) {
        throw py::buffer_error("a device array is handed over as it is: not copied, not to another device, and not "
                               "of dtype " +
                               array.dtype);
    }
    const std::optional<cudaStream_t> consumer = consumer_of(stream);
    if (consumer) {
        wait_for(array, *consumer);
    }
    auto exported = std::make_unique<Exported>(array, consumer);
    DLTensor& tensor = exported->managed.dl_tensor;
    tensor.data = array.block->data();
    tensor.device = {kDLCUDA, array.device};
    tensor.ndim = static_cast<std::int32_t>(array.shape.size());
    tensor.dtype = {type->dlpack, static_cast<std::uint8_t>(type->bytes * 8), 1};
    tensor.shape = exported->shape.data();
    exported->managed.manager_ctx = exported.get();
    exported->managed.deleter = [](DLManagedTensor* self) { delete static_cast<Exported*>(self->manager_ctx); };
    PyObject* capsule = PyCapsule_New(&exported->managed, capsule_name, [](PyObject* object) {
        // A consumer renames the capsule and frees the tensor itself.
        if (PyCapsule_IsValid(object, capsule_name) != 0) {
            auto* unused = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(object, capsule_name));
            unused->deleter(unused);
        }
    });
    if (capsule == nullptr) {
        throw py::error_already_set();
    }
    static_cast<void>(exported.release()); // NOLINT(bugprone-unused-return-value): the capsule owns it now
    return py::reinterpret_steal<py::capsule>(capsule);
}

py::array to_numpy(const DeviceArray& array) {
    py::array result = new_array(array.dtype, array.shape);
    void* target = result.mutable_data();
    const py::gil_scoped_release unlocked;
    const DeviceScope scope{array.device};
    if (array.done) {
        array.done->synchronize();
    }
    if (array.bytes > 0) {
        TRTW_CUDA(cudaMemcpy(target, array.block->data(), array.bytes, cudaMemcpyDeviceToHost));
    }
    return result;
}

// ---- what others hand in -----------------------------------------------------------------------------

std::string type_of_string(const std::string& typestr) {
    for (const TypeEntry& entry : types) {
        if (entry.kind != 0 && typestr.size() >= 3 && typestr[0] != '>' && typestr[1] == entry.kind &&
            typestr.substr(2) == std::to_string(entry.bytes)) {
            return std::string{entry.name};
        }
    }
    return "'" + typestr + "'";
}

std::optional<cudaStream_t> producer_of(const py::dict& description) {
    if (!description.contains("stream")) {
        // Older versions of the interface say nothing; most libraries' default stream is the legacy one.
        return cudaStreamLegacy;
    }
    const py::object stream = description["stream"];
    return stream.is_none() ? std::nullopt : std::optional{stream_of_handle(stream.cast<std::intptr_t>())};
}

ForeignArray from_interface(const py::dict& description, const py::handle& owner) {
    ForeignArray array;
    array.keep = py::reinterpret_borrow<py::object>(owner);
    if (description.contains("mask") && !py::object(description["mask"]).is_none()) {
        throw UsageProblem("An array on the GPU has a mask, which no engine takes; pass an array without one.");
    }
    array.shape = description["shape"].cast<Shape>();
    array.dtype = type_of_string(description["typestr"].cast<std::string>());
    const auto data = description["data"].cast<py::tuple>();
    array.data = reinterpret_cast<const void*>(data[0].cast<std::uintptr_t>()); // NOLINT(performance-no-int-to-ptr)
    if (description.contains("strides") && !py::object(description["strides"]).is_none()) {
        const TypeEntry* type = find(array.dtype);
        array.contiguous = type != nullptr && trtw::is_contiguous(array.shape, description["strides"].cast<Shape>(),
                                                                  static_cast<std::size_t>(type->bytes));
    }
    array.producer = producer_of(description);
    return array;
}

std::string type_of_dlpack(const DLDataType& dtype) {
    for (const TypeEntry& entry : types) {
        if (entry.dlpack == dtype.code && entry.bytes * 8 == dtype.bits && dtype.lanes == 1) {
            return std::string{entry.name};
        }
    }
    return "DLPack code " + std::to_string(dtype.code) + " of " + std::to_string(dtype.bits) + " bits";
}

ForeignArray from_tensor(const DLTensor& tensor, py::object keep) {
    ForeignArray array;
    array.keep = std::move(keep);
    array.data = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
    array.shape.assign(tensor.shape, tensor.shape + tensor.ndim);
    array.dtype = type_of_dlpack(tensor.dtype);
    array.device = tensor.device.device_id;
    array.contiguous = tensor.strides == nullptr ||
                       trtw::is_contiguous(array.shape, {tensor.strides, static_cast<std::size_t>(tensor.ndim)}, 1);
    return array;
}

bool is_gpu(int device_type) {
    return device_type == kDLCUDA || device_type == kDLCUDAManaged;
}

ForeignArray from_dlpack(const py::handle& value, cudaStream_t consumer) {
    // After this, the consumer's stream comes after the array's producer.
    const py::object object = value.attr("__dlpack__")(py::arg("stream") = handle_of_stream(consumer));
    auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(object.ptr(), capsule_name));
    if (managed == nullptr) {
        throw py::error_already_set();
    }
    return from_tensor(managed->dl_tensor, object); // not renamed: the producer's capsule frees the tensor
}

// One of this module's arrays, without the way round by DLPack.
ForeignArray from_own(const DeviceArray& own, cudaStream_t consumer) {
    wait_for(own, consumer);
    ForeignArray array;
    array.data = own.block->data();
    array.shape = own.shape;
    array.dtype = own.dtype;
    array.device = own.device;
    auto reading = std::make_unique<Reading>(own.block, own.device, consumer);
    array.keep = py::capsule(reading.get(), [](void* pointer) { delete static_cast<Reading*>(pointer); });
    static_cast<void>(reading.release()); // NOLINT(bugprone-unused-return-value): the capsule owns it now
    return array;
}

// What the type of an array offers; null where it offers nothing.
const DlpackExchange* exchange_of(const py::handle& value) {
    static const py::handle name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
    const py::object found = attribute(py::type::handle_of(value), name);
    if (PyCapsule_IsValid(found.ptr(), exchange_capsule) == 0) {
        return nullptr;
    }
    const auto* exchange = static_cast<const DlpackExchange*>(PyCapsule_GetPointer(found.ptr(), exchange_capsule));
    return exchange->header.version.major == DLPACK_MAJOR_VERSION && exchange->view_of_object != nullptr ? exchange
                                                                                                         : nullptr;
}

void check_python(int status) {
    if (status != 0) {
        throw py::error_already_set();
    }
}

// nullopt for an array in host memory.
std::optional<ForeignArray> from_exchange(const DlpackExchange& exchange, const py::handle& value) {
    DLTensor tensor{};
    check_python(exchange.view_of_object(value.ptr(), &tensor));
    if (!is_gpu(tensor.device.device_type)) {
        return std::nullopt;
    }
    void* stream = nullptr;
    check_python(exchange.current_stream(tensor.device.device_type, tensor.device.device_id, &stream));
    ForeignArray array = from_tensor(tensor, py::reinterpret_borrow<py::object>(value));
    array.producer = stream_of_handle(reinterpret_cast<std::intptr_t>(stream));
    return array;
}

bool is_on_gpu_by_dlpack(const py::handle& value) {
    return py::hasattr(value, "__dlpack_device__") &&
           is_gpu(value.attr("__dlpack_device__")().cast<std::pair<int, int>>().first);
}

// What a stream's handle can be made of: where PyTorch keeps it, and CuPy; what cuda.core has; else the object itself.
py::object handle_in(py::handle stream) {
    static const std::array<py::handle, 2> names{PyUnicode_InternFromString("cuda_stream"),
                                                 PyUnicode_InternFromString("ptr")};
    if (PyLong_CheckExact(stream.ptr()) != 0) {
        return py::reinterpret_borrow<py::object>(stream);
    }
    for (const py::handle name : names) {
        if (py::object handle = attribute(stream, name); !handle.is_none()) {
            return handle;
        }
    }
    const py::object protocol = py::getattr(stream, "__cuda_stream__", py::none());
    return protocol.is_none() ? py::reinterpret_borrow<py::object>(stream)
                              : py::object(protocol().cast<py::tuple>()[1]);
}

} // namespace

namespace {

std::optional<ForeignArray> read_foreign(const py::handle& value, cudaStream_t consumer) {
    if (is_a<DeviceArray>(value)) {
        return from_own(value.cast<const DeviceArray&>(), consumer);
    }
    if (const DlpackExchange* exchange = exchange_of(value)) {
        return from_exchange(*exchange, value);
    }
    if (is_on_gpu_by_dlpack(value)) {
        return from_dlpack(value, consumer);
    }
    // None also where that fails, as torch's does for dtypes that the interface lacks.
    const py::object found = py::getattr(value, "__cuda_array_interface__", py::none());
    return found.is_none() ? std::nullopt : std::optional{from_interface(found.cast<py::dict>(), value)};
}

} // namespace

std::optional<ForeignArray> foreign_array(const py::handle& value, cudaStream_t consumer) {
    const auto refused = [&](std::string why) {
        why.resize(std::min(why.size(), why.find('\n'))); // PyTorch adds its stack
        return UsageProblem("A " + py::str(py::type::of(value).attr("__name__")).cast<std::string>() +
                            " cannot be read as an array: " + why + ".");
    };
    try {
        return read_foreign(value, consumer);
    } catch (const py::error_already_set& error) {
        if (!error.matches(PyExc_Exception)) {
            throw;
        }
        throw refused(py::str(error.value()).cast<std::string>());
    } catch (const py::cast_error&) {
        throw refused("what it says of itself has values of other types than its protocol's");
    }
}

std::optional<cudaStream_t> stream_of(py::handle stream) {
    if (stream.is_none()) {
        return std::nullopt;
    }
    const py::object handle = handle_in(stream);
    const bool is_other = py::isinstance<py::str>(handle) || py::isinstance<py::bool_>(handle) ||
                          py::isinstance<py::float_>(handle); // which have integers, too
    const auto number = py::reinterpret_steal<py::object>(is_other ? nullptr : PyNumber_Long(handle.ptr()));
    if (!number) {
        PyErr_Clear();
        throw UsageProblem("A stream is an object of PyTorch, CuPy, Numba or cuda-python, or its handle; got " +
                           py::str(py::type::of(stream)).cast<std::string>() + ".");
    }
    const auto value = PyLong_AsSsize_t(number.ptr());
    if (value == -1 && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        throw UsageProblem("No stream has a handle of " + py::repr(number).cast<std::string>() + ".");
    }
    return stream_of_handle(value);
}

py::dtype numpy_dtype(const std::string& name) {
    const TypeEntry* type = find(name);
    if (type == nullptr) {
        throw UsageProblem("numpy has no type that could hold " + name + ".");
    }
    return py::dtype(type->numpy);
}

py::array new_array(const std::string& dtype, const Shape& shape) {
    return {numpy_dtype(dtype), std::vector<py::ssize_t>(shape.begin(), shape.end())};
}

py::tuple shape_tuple(const Shape& shape) {
    py::tuple result(shape.size());
    for (std::size_t i = 0; i < shape.size(); ++i) {
        result[i] = shape[i];
    }
    return result;
}

void bind_device_array(py::module_& m) {
    py::class_<DeviceArray>(m, "DeviceArray", "A row-major array in device memory, alive as long as this object.")
        .def_property_readonly("shape", [](const DeviceArray& a) { return shape_tuple(a.shape); })
        .def_readonly("dtype", &DeviceArray::dtype)
        .def_readonly("nbytes", &DeviceArray::bytes)
        .def_readonly("device", &DeviceArray::device)
        .def_property_readonly("pointer",
                               [](const DeviceArray& a) { return reinterpret_cast<std::uintptr_t>(a.block->data()); })
        .def("numpy", &to_numpy, "Copies to the host.")
        .def_property_readonly("__cuda_array_interface__", &cuda_array_interface)
        .def("__dlpack__", &to_dlpack, py::kw_only(), py::arg("stream") = py::none(),
             py::arg("max_version") = py::none(), py::arg("dl_device") = py::none(), py::arg("copy") = py::none())
        .def("__dlpack_device__",
             [](const DeviceArray& a) { return py::make_tuple(static_cast<int>(kDLCUDA), a.device); })
        .def("__repr__", [](const DeviceArray& a) {
            return "DeviceArray(" + a.dtype + " " + trtw::bracketed(a.shape) + ", device " + std::to_string(a.device) +
                   ")";
        });
}

} // namespace trtw::bindings

#endif
