#include "trtw/engine/state.hpp"

#include "trtw/device/check.hpp"
#include "trtw/engine/host_array.hpp"

#include <algorithm>
#include <utility>

namespace trtw::engine {

namespace {

std::size_t index_of(const std::vector<TensorInfo>& tensors, const std::string& name, const char* what) {
    const auto found =
        std::find_if(tensors.begin(), tensors.end(), [&](const TensorInfo& t) { return t.name == name; });
    if (found == tensors.end()) {
        throw UsageProblem("State names the " + std::string{what} + " '" + name + "', which the engine does not have.");
    }
    return static_cast<std::size_t>(found - tensors.begin());
}

void check_pair(const TensorInfo& output, const TensorInfo& input) {
    if (output.dtype != input.dtype || output.shape.size() != input.shape.size()) {
        throw UsageProblem("State output '" + output.name + "' (" + output.dtype + " " + bracketed(output.shape) +
                           ") cannot feed input '" + input.name + "' (" + input.dtype + " " + bracketed(input.shape) +
                           "): dtype and number of dimensions must be equal.");
    }
    if (output.on_host || input.on_host) {
        throw UsageProblem("State '" + output.name + "' -> '" + input.name +
                           "' is a shape tensor in host memory; it cannot stay on the device.");
    }
}

} // namespace

StateStore::StateStore(const Plan& plan, const std::map<std::string, std::string>& pairs)
    : plan_{&plan}, by_input_(plan.inputs().size(), -1), by_output_(plan.outputs().size(), -1) {
    for (const auto& [output_name, input_name] : pairs) {
        Pair pair;
        pair.output = index_of(plan.outputs(), output_name, "output");
        pair.input = index_of(plan.inputs(), input_name, "input");
        check_pair(plan.outputs()[pair.output], plan.inputs()[pair.input]);
        if (by_input_[pair.input] >= 0) {
            throw UsageProblem("State feeds input '" + input_name + "' from two outputs.");
        }
        by_input_[pair.input] = by_output_[pair.output] = static_cast<int>(pairs_.size());
        pairs_.push_back(std::move(pair));
    }
}

bool StateStore::reserve(device::DeviceBuffer& buffer, const Pair& pair, std::size_t bytes, int profile) const {
    if (buffer.capacity() >= bytes && buffer.data() != nullptr) {
        return false;
    }
    // Room for the profile's longest state at once: a cache that grows by a step a call would move every call.
    const TensorInfo& input = plan_->inputs()[pair.input];
    const auto p = static_cast<std::size_t>(std::max(profile, 0));
    const std::size_t most = p < input.profiles.size() ? byte_size(input, input.profiles[p].max) : bytes;
    if (most > bytes) {
        try {
            return buffer.reserve(most);
        } catch (const device::OutOfMemory&) { // NOLINT(bugprone-empty-catch): the exact size may still fit
        }
    }
    return buffer.reserve(bytes);
}

bool StateStore::set(std::size_t input, const Input& value, cudaStream_t stream) {
    Pair& pair = pairs_[static_cast<std::size_t>(by_input_[input])];
    const TensorInfo& tensor = plan_->inputs()[input];
    if (value.source == Source::images) {
        throw UsageProblem("State input '" + tensor.name + "' takes an array, no images.");
    }
    device::DeviceBuffer& buffer = pair.buffers[reading()];
    const std::size_t bytes = byte_size(tensor, value.shape);
    const bool changed = reserve(buffer, pair, bytes, -1);
    if (value.source == Source::host && !value.strides.empty()) {
        std::vector<std::byte> packed(bytes);
        copy_strided(packed.data(), value.data, value.shape, value.strides, tensor.bits / 8);
        TRTW_CUDA(cudaMemcpyAsync(buffer.data(), packed.data(), bytes, cudaMemcpyHostToDevice, stream));
        TRTW_CUDA(cudaStreamSynchronize(stream));
    } else {
        TRTW_CUDA(cudaMemcpyAsync(buffer.data(), value.data, bytes, cudaMemcpyDefault, stream));
        if (value.source == Source::host) {
            TRTW_CUDA(cudaStreamSynchronize(stream));
        }
    }
    pair.shape = value.shape;
    pair.has_value = true;
    return changed;
}

void StateStore::reset() noexcept {
    for (Pair& pair : pairs_) {
        pair.has_value = false;
    }
}

const Shape& StateStore::next_input(std::size_t input, cudaStream_t stream, bool& changed) {
    Pair& pair = pairs_[static_cast<std::size_t>(by_input_[input])];
    if (!pair.has_value) {
        const TensorInfo& tensor = plan_->inputs()[input];
        if (is_dynamic(tensor.shape)) {
            throw UsageProblem("State input '" + tensor.name + "' has no value yet and a dynamic shape, " +
                               bracketed(tensor.shape) +
                               "; give its first value with reset_state or among the inputs of the first call.");
        }
        device::DeviceBuffer& buffer = pair.buffers[reading()];
        const std::size_t bytes = byte_size(tensor, tensor.shape);
        changed = reserve(buffer, pair, bytes, -1) || changed;
        TRTW_CUDA(cudaMemsetAsync(buffer.data(), 0, bytes, stream));
        pair.shape = tensor.shape;
        pair.has_value = true;
    }
    return pair.shape;
}

bool StateStore::reserve_output(std::size_t output, std::size_t bytes, int profile) {
    Pair& pair = pairs_[static_cast<std::size_t>(by_output_[output])];
    return reserve(pair.buffers[writing()], pair, bytes, profile);
}

void StateStore::advance(const std::vector<Shape>& output_shapes) {
    for (Pair& pair : pairs_) {
        pair.shape = output_shapes[pair.output];
    }
    parity_ = 1 - parity_;
}

StateValue StateStore::value(std::size_t input) const {
    const Pair& pair = pairs_[static_cast<std::size_t>(by_input_[input])];
    return pair.has_value ? StateValue{pair.buffers[reading()].block(), pair.shape} : StateValue{};
}

void* StateStore::input_address(std::size_t input) const noexcept {
    return pairs_[static_cast<std::size_t>(by_input_[input])].buffers[reading()].data();
}

const std::shared_ptr<device::DeviceMemory>& StateStore::output_block(std::size_t output) const noexcept {
    return pairs_[static_cast<std::size_t>(by_output_[output])].buffers[writing()].block();
}

std::size_t StateStore::device_bytes() const noexcept {
    std::size_t total = 0;
    for (const Pair& pair : pairs_) {
        total += pair.buffers[0].capacity() + pair.buffers[1].capacity();
    }
    return total;
}

} // namespace trtw::engine
