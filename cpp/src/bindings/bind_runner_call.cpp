#include "bind_runner_call.hpp"

#include "bind_device_array.hpp"
#include "bind_vision.hpp"
#include "device/check.hpp"
#include "device/copy_pool.hpp"
#include "run/execution.hpp"
#include "trt/joined.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <utility>

namespace py = pybind11;

namespace trtw::bindings {

namespace {

// Copies below this size are done before another thread could have taken the GIL.
constexpr std::size_t release_limit = std::size_t{64} << 10U;
// As many as threads call at once, mostly.
constexpr std::size_t most_spare_requests = 8;

std::string described(const TensorInfo& tensor) {
    return tensor.name + " " + tensor.dtype + " " + trtw::bracketed(tensor.shape);
}

[[noreturn]] void refuse_dtype(const TensorInfo& tensor, const std::string& got) {
    throw UsageProblem("Input '" + tensor.name + "' has dtype " + got + "; the engine takes " + described(tensor) +
                       ". Convert it first.");
}

bool holds(const TensorInfo& tensor, const py::dtype& dtype) {
    const py::dtype wanted = numpy_dtype(tensor.dtype);
    if (dtype.itemsize() != wanted.itemsize()) {
        return false;
    }
    // numpy lacks these: their bits as unsigned integers, or ml_dtypes' types.
    const std::string_view own = tensor.dtype == "bfloat16" ? "bfloat16" : tensor.dtype == "fp8" ? "float8_e4m3fn" : "";
    return dtype.kind() == wanted.kind() || (!own.empty() && py::str(dtype.attr("name")).cast<std::string>() == own);
}

void check_dtype(const TensorInfo& tensor, const py::array& array) {
    if (array.dtype().is(numpy_dtype(tensor.dtype))) {
        return; // most are numpy's own one
    }
    if (!holds(tensor, array.dtype())) {
        refuse_dtype(tensor, py::str(array.dtype().attr("name")));
    }
}

void set_host(Input& input, const TensorInfo& tensor, const py::array& array) {
    check_dtype(tensor, array);
    input.source = Source::host;
    input.data = array.data();
    input.shape.assign(array.shape(), array.shape() + array.ndim());
    if ((array.flags() & py::array::c_style) == 0) {
        input.strides.assign(array.strides(), array.strides() + array.ndim());
    }
}

void set_images(Input& input, const TensorInfo& tensor, const ImageBatch& batch) {
    if (element_name(batch.spec.dtype) != tensor.dtype) {
        refuse_dtype(tensor, element_name(batch.spec.dtype) + " of its letterbox");
    }
    input.source = Source::images;
    input.shape = batch_shape(batch.views.size(), batch.spec);
    input.images = batch.views;
    input.spec = batch.spec;
}

// The GPU that the memory is on; the engine's own where every GPU reaches it.
int device_of(const Plan& plan, const TensorInfo& tensor, const void* address) {
    cudaPointerAttributes attributes{};
    const cudaError_t status = cudaPointerGetAttributes(&attributes, address);
    if (status == cudaSuccess && attributes.type == cudaMemoryTypeDevice) {
        return attributes.device;
    }
    if (status != cudaSuccess || attributes.type != cudaMemoryTypeManaged) {
        static_cast<void>(cudaGetLastError());
        throw UsageProblem("Input '" + tensor.name + "' claims to be on a GPU, but its address is not.");
    }
    return plan.device();
}

void check_place(const Plan& plan, const TensorInfo& tensor, const ForeignArray& array) {
    const int device = array.device ? *array.device : device_of(plan, tensor, array.data);
    if (device != plan.device()) {
        throw UsageProblem("Input '" + tensor.name + "' is on GPU " + std::to_string(device) +
                           ", but the engine is on GPU " + std::to_string(plan.device()) + ".");
    }
    const auto writes_it = [&](const TensorInfo& output) { return output.aliased_input == tensor.name; };
    if (!is_aligned(array.data) && std::ranges::any_of(plan.outputs(), writes_it)) {
        throw UsageProblem("Input '" + tensor.name +
                           "' is on the GPU at an address that is not a multiple of 256, as TensorRT requires of an "
                           "array that an output is written in; pass a copy (.clone()).");
    }
}

void set_device(Input& input, const Plan& plan, const TensorInfo& tensor, const ForeignArray& array) {
    if (array.dtype != tensor.dtype) {
        refuse_dtype(tensor, array.dtype);
    }
    if (trtw::is_dynamic(array.shape)) {
        throw UsageProblem("Input '" + tensor.name + "' claims a negative size.");
    }
    if (!array.contiguous) {
        throw UsageProblem("Input '" + tensor.name +
                           "' is on the GPU with gaps or not in row-major order; "
                           "pass a contiguous copy (.contiguous()).");
    }
    input.data = array.data;
    input.shape = array.shape;
    if (trtw::volume(array.shape) == 0) {
        input.source = Source::host; // nothing to read, and often no address
        return;
    }
    check_place(plan, tensor, array);
    input.source = Source::device;
    input.producer = array.producer;
}

std::size_t output_index(const Plan& plan, const std::string& name) {
    const auto found = trtw::index_of(plan.outputs(), name);
    if (!found) {
        throw UsageProblem("The engine has no output '" + name + "'; it has " +
                           trtw::joined(plan.outputs(), ", ", described) + ".");
    }
    return *found;
}

std::vector<bool> flags_of(const Plan& plan, const std::vector<std::string>& names) {
    std::vector<bool> flags(plan.outputs().size(), false);
    for (const std::string& name : names) {
        flags[output_index(plan, name)] = true;
    }
    return flags;
}

void copy_bytes(void* target, const void* source, std::size_t bytes) {
    if (bytes < release_limit) {
        copy_memory(target, source, bytes);
        return;
    }
    const py::gil_scoped_release unlocked;
    copy_memory(target, source, bytes);
}

DeviceArray device_array(const Plan& plan, const Output& output) {
    return {output.device, output.shape, output.tensor->dtype, output.bytes, plan.device()};
}

py::array view_of(const Output& output) {
    using Owner = std::shared_ptr<PinnedMemory>;
    auto owner = std::make_unique<Owner>(output.host);
    return array_over(numpy_dtype(output.tensor->dtype), output.shape, output.host->data(), std::move(owner));
}

py::array host_output(const Output& output, bool copy, const OutputArrays& out, ArrayPool& pool) {
    if (out) {
        if (const auto given = out->find(output.tensor->name); given != out->end()) {
            py::array target = given->second;
            if (!output.in_place) {
                copy_bytes(target.mutable_data(), output.host->data(), output.bytes);
            }
            return target;
        }
    }
    if (!copy) {
        return view_of(output);
    }
    py::array target = pool.make(output.tensor->dtype, output.shape, output.bytes);
    copy_bytes(target.mutable_data(), output.host->data(), output.bytes);
    return target;
}

} // namespace

void set_input(Input& input, const Plan& plan, const TensorInfo& tensor, const py::handle& value, cudaStream_t consumer,
               std::vector<py::object>& keep) {
    input.strides.clear();
    input.producer.reset();
    input.images.clear();
    if (py::isinstance<py::array>(value)) {
        keep.push_back(host_array(value, "Input", tensor.name));
        set_host(input, tensor, py::reinterpret_borrow<py::array>(keep.back()));
        return;
    }
    if (auto foreign = foreign_array(value, consumer)) {
        keep.push_back(std::move(foreign->keep));
        set_device(input, plan, tensor, *foreign);
        return;
    }
    if (is_a<ImageBatch>(value)) {
        keep.push_back(py::reinterpret_borrow<py::object>(value));
        set_images(input, tensor, value.cast<const ImageBatch&>());
        return;
    }
    keep.push_back(host_array(value, "Input", tensor.name));
    set_host(input, tensor, py::reinterpret_borrow<py::array>(keep.back()));
}

Inputs::Inputs(std::shared_ptr<const Plan> plan, const std::map<std::string, std::string>& state)
    : plan_{std::move(plan)} {
    for (const TensorInfo& tensor : plan_->inputs()) {
        names_.emplace_back(tensor.name);
        may_lack_.push_back(trtw::feeds(state, tensor.name));
    }
    spare_.reserve(most_spare_requests);
}

void Inputs::GiveBack::operator()(Request* request) const noexcept {
    std::unique_ptr<Request> spare{request};
    spare->keep.clear(); // may call whatever ends with an array
    if (home->spare_.size() < most_spare_requests) {
        home->spare_.push_back(std::move(spare)); // there is room: nothing throws
    }
}

// Of all inputs, without values.
Inputs::OwnedRequest Inputs::blank() const {
    if (spare_.empty()) {
        OwnedRequest made{new Request, {this}};
        made->call.inputs.resize(names_.size());
        return made;
    }
    OwnedRequest taken{spare_.back().release(), {this}};
    spare_.pop_back();
    Call& call = taken->call;
    call.to_host.reset();
    call.at.clear();
    call.room.clear();
    call.into.clear();
    call.arrays_stay = false;
    return taken;
}

void Inputs::refuse_unknown(const py::dict& values) const {
    for (const auto& item : values) {
        const std::string name = py::str(item.first);
        if (!trtw::index_of(plan_->inputs(), name)) {
            throw UsageProblem("The engine has no input '" + name + "'; it takes " +
                               trtw::joined(plan_->inputs(), ", ", described) + ".");
        }
    }
}

py::dict by_name(py::handle values) {
    if (py::isinstance<py::dict>(values)) {
        return py::reinterpret_borrow<py::dict>(values);
    }
    if (!py::hasattr(values, "keys")) {
        throw py::type_error("Arrays are given as a mapping by their names, not as " +
                             py::str(py::type::of(values).attr("__name__")).cast<std::string>() + ".");
    }
    return py::dict(py::reinterpret_borrow<py::object>(values));
}

Inputs::OwnedRequest Inputs::request(py::handle values, cudaStream_t consumer) const {
    const py::dict given = by_name(values);
    OwnedRequest request = blank();
    std::size_t used = 0;
    for (std::size_t i = 0; i < names_.size(); ++i) {
        const TensorInfo& tensor = plan_->inputs()[i];
        // once all that was given is found, the others are not looked for
        PyObject* value = used < given.size() ? PyDict_GetItemWithError(given.ptr(), names_[i].ptr()) : nullptr;
        if (value != nullptr) {
            ++used;
            set_input(request->call.inputs[i], *plan_, tensor, value, consumer, request->keep);
        } else if (may_lack_[i]) {
            request->call.inputs[i].source = Source::state;
        } else {
            refuse_unknown(given); // a wrong name explains more than a missing one
            throw UsageProblem("Input '" + tensor.name + "' is missing; the engine takes " +
                               trtw::joined(plan_->inputs(), ", ", described) + ".");
        }
    }
    if (used != given.size()) {
        refuse_unknown(given);
    }
    return request;
}

Inputs::OwnedRequest Inputs::host_request(py::handle values) const {
    OwnedRequest made = request(values, cudaStreamLegacy);
    for (const Input& input : made->call.inputs) {
        if (input.source != Source::host && input.source != Source::state) {
            throw UsageProblem("A measurement needs arrays in host memory; pass numpy arrays.");
        }
    }
    return made;
}

Selection select_outputs(const Plan& plan, const std::vector<bool>& default_to_host,
                         const std::optional<std::vector<std::string>>& outputs, const OnDevice& device_outputs,
                         const Indices& at) {
    Selection selection;
    selection.to_host = outputs ? flags_of(plan, *outputs) : default_to_host;
    if (const bool* const all = std::get_if<bool>(&device_outputs)) {
        selection.to_device.assign(plan.outputs().size(), *all);
    } else {
        selection.to_device = flags_of(plan, std::get<std::vector<std::string>>(device_outputs));
    }
    for (std::size_t o = 0; o < plan.outputs().size(); ++o) {
        if (!selection.to_device[o]) {
            continue;
        }
        if (plan.outputs()[o].on_host) {
            throw UsageProblem("Output '" + plan.outputs()[o].name +
                               "' is written to host memory by TensorRT; it is not available on the device.");
        }
        selection.to_host[o] = false;
    }
    for (const auto& [name, index] : at.value_or(std::map<std::string, std::int64_t>{})) {
        const std::size_t o = output_index(plan, name);
        if (selection.to_device[o]) {
            throw UsageProblem("Output '" + name + "' is requested both on the device and at one index on the host.");
        }
        selection.at.resize(plan.outputs().size());
        selection.at[o] = index;
        selection.to_host[o] = true;
    }
    return selection;
}

std::vector<std::optional<Shape>> room_of(const Plan& plan, const Selection& selection, const OutputArrays& out) {
    std::vector<std::optional<Shape>> room(out ? plan.outputs().size() : 0);
    for (const auto& [name, array] : out.value_or(std::map<std::string, py::array>{})) {
        const std::size_t o = output_index(plan, name);
        const std::string what = "The array for output '" + name + "'";
        static_cast<void>(host_array(array, "The array for output", name));
        if (!selection.to_host[o]) {
            throw UsageProblem(what + " would stay empty: the call does not copy this output to the host.");
        }
        const bool is_row_major = (array.flags() & py::array::c_style) != 0;
        if (!holds(plan.outputs()[o], array.dtype()) || !array.writeable() || !is_row_major) {
            throw UsageProblem(what + " must be " + plan.outputs()[o].dtype + ", C-contiguous and writeable.");
        }
        room[o] = Shape(array.shape(), array.shape() + array.ndim());
    }
    return room;
}

std::vector<void*> addresses_of(const Plan& plan, const OutputArrays& out) {
    std::vector<void*> addresses(out ? plan.outputs().size() : 0);
    for (auto [name, array] : out.value_or(std::map<std::string, py::array>{})) {
        addresses[output_index(plan, name)] = array.mutable_data();
    }
    return addresses;
}

bool wants_host(const Plan& plan, const Selection& selection) {
    for (std::size_t o = 0; o < selection.to_host.size(); ++o) {
        if (selection.to_host[o] || plan.outputs()[o].on_host) {
            return true;
        }
    }
    return false;
}

py::dict collect(const Plan& plan, const Enqueued& enqueued, const Selection& selection, cudaStream_t stream) {
    py::dict results;
    for (std::size_t o = 0; o < enqueued.outputs.size(); ++o) {
        if (selection.to_device[o]) {
            const Output& output = enqueued.outputs[o];
            DeviceArray array = device_array(plan, output);
            array.done = enqueued.done;
            array.stream = stream;
            results[output.tensor->name.c_str()] = std::move(array);
        }
    }
    return results;
}

py::dict collect(const Plan& plan, const Runner::Finished& finished, const Selection& selection, bool copy,
                 const OutputArrays& out, ArrayPool& pool) {
    py::dict results;
    for (std::size_t o = 0; o < plan.outputs().size(); ++o) {
        const Output& output = finished.outputs()[o];
        const char* name = output.tensor->name.c_str();
        if (selection.to_device[o]) {
            results[name] = device_array(plan, output);
        } else if (selection.to_host[o]) {
            results[name] = host_output(output, copy, out, pool);
        }
    }
    return results;
}

} // namespace trtw::bindings
