#include "run/state.hpp"

#include "device/check.hpp"
#include "run/host_array.hpp"

#include <algorithm>
#include <utility>

namespace trtw {

namespace {

std::size_t named(const std::vector<TensorInfo>& tensors, const std::string& name, const char* what) {
    const auto found = index_of(tensors, name);
    if (!found) {
        throw UsageProblem("State names the " + std::string{what} + " '" + name + "', which the engine does not have.");
    }
    return *found;
}

void check_pair(const TensorInfo& output, const TensorInfo& input) {
    if (output.dtype != input.dtype || output.shape.size() != input.shape.size()) {
        throw UsageProblem("State output '" + output.name + "' (" + output.dtype + " " + bracketed(output.shape) +
                           ") cannot feed input '" + input.name + "' (" + input.dtype + " " + bracketed(input.shape) +
                           "): dtype and number of dimensions must be equal.");
    }
    if (!input.is_linear) {
        throw UsageProblem("State input '" + input.name + "' has the format " + input.format +
                           "; a state is row-major. Build the engine without I/O formats.");
    }
    if (output.on_host || input.on_host) {
        throw UsageProblem("State '" + output.name + "' -> '" + input.name +
                           "' is a shape tensor in host memory; it cannot stay on the device.");
    }
}

// What holds the old memory may let go of it at any time, so the copy is waited for.
void copy_value(DeviceBuffer& to, const DeviceBuffer& from, cudaStream_t stream) {
    to.reserve(from.capacity());
    TRTW_CUDA(cudaMemcpyAsync(to.data(), from.data(), from.capacity(), cudaMemcpyDeviceToDevice, stream));
    TRTW_CUDA(cudaStreamSynchronize(stream));
}

} // namespace

StateStore::StateStore(const Plan& plan, const std::map<std::string, std::string>& pairs)
    : plan_{&plan}, by_input_(plan.inputs().size(), -1), by_output_(plan.outputs().size(), -1) {
    for (const auto& [output_name, input_name] : pairs) {
        Pair pair;
        pair.output = named(plan.outputs(), output_name, "output");
        pair.input = named(plan.inputs(), input_name, "input");
        check_pair(plan.outputs()[pair.output], plan.inputs()[pair.input]);
        const auto aliased = plan.aliased_input(pair.output);
        pair.in_place = aliased == pair.input;
        if (aliased && !pair.in_place) {
            throw UsageProblem("State output '" + output_name + "' shares the memory of input '" +
                               plan.outputs()[pair.output].aliased_input + "'; it can feed that input only.");
        }
        if (by_input_[pair.input] >= 0) {
            throw UsageProblem("State feeds input '" + input_name + "' from two outputs.");
        }
        by_input_[pair.input] = by_output_[pair.output] = static_cast<int>(pairs_.size());
        pairs_.push_back(std::move(pair));
    }
}

bool StateStore::reserve(DeviceBuffer& buffer, const Pair& pair, std::size_t bytes, int profile) const {
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
        } catch (const OutOfMemory&) { // NOLINT(bugprone-empty-catch): the exact size may still fit
        }
    }
    return buffer.reserve(bytes);
}

void StateStore::check(std::size_t input, const Input& value) const {
    const TensorInfo& tensor = plan_->inputs()[input];
    check_input(tensor, value);
    if (value.source == Source::images || value.source == Source::state) {
        throw UsageProblem("State input '" + tensor.name + "' takes an array, not images.");
    }
    bool fits = value.shape.size() == tensor.shape.size();
    for (std::size_t d = 0; fits && d < tensor.shape.size(); ++d) {
        fits = value.shape[d] >= 0 && (tensor.shape[d] < 0 || tensor.shape[d] == value.shape[d]);
    }
    if (!fits) {
        throw UsageProblem("State input '" + tensor.name + "' has the shape " + bracketed(value.shape) +
                           "; the engine takes " + bracketed(tensor.shape) + ".");
    }
}

const Shape& StateStore::next_shape(std::size_t input) const {
    const Pair& pair = pair_at(input);
    const TensorInfo& tensor = plan_->inputs()[input];
    if (!pair.has_value && is_dynamic(tensor.shape)) {
        throw UsageProblem("State input '" + tensor.name + "' has no value yet and a dynamic shape, " +
                           bracketed(tensor.shape) +
                           "; set its first value with reset_state or in the inputs of the first call.");
    }
    return pair.has_value ? pair.shape : tensor.shape;
}

void StateStore::make_room(std::size_t input, const Shape& shape, bool apart) {
    Pair& pair = pair_at(input);
    const std::size_t bytes = byte_size(plan_->inputs()[input], shape);
    const DeviceBuffer& now = pair.at(parity_);
    pair.apart = apart;
    pair.needs_room = apart || now.data() == nullptr || now.capacity() < bytes || now.is_lent();
    if (!pair.needs_room || pair.room.is_lent()) {
        pair.room.release();
    }
    if (pair.needs_room) {
        reserve(pair.room, pair, bytes, -1);
    }
}

// A value of this shape comes, into the room that was made if there is some. True when an address changed.
bool StateStore::enter(Pair& pair, const Shape& shape) {
    const bool moved = std::exchange(pair.needs_room, false);
    if (moved) {
        std::swap(pair.at(parity_), pair.room);
    }
    if (moved || !pair.has_value) {
        pair.former = Former{std::move(pair.shape), pair.has_value, moved};
    }
    pair.shape = shape;
    pair.has_value = true;
    return moved;
}

void StateStore::keep() noexcept {
    for (Pair& pair : pairs_) {
        if (pair.former && (!pair.apart || pair.room.is_lent())) {
            pair.room.release();
        }
        pair.former.reset();
    }
}

void StateStore::undo() noexcept {
    for (Pair& pair : pairs_) {
        if (pair.former) {
            if (pair.former->in_room) {
                std::swap(pair.at(parity_), pair.room);
            }
            pair.shape = std::move(pair.former->shape);
            pair.has_value = pair.former->has_value;
            pair.former.reset();
        }
    }
}

bool StateStore::set(std::size_t input, const Input& value, cudaStream_t stream) {
    Pair& pair = pair_at(input);
    const TensorInfo& tensor = plan_->inputs()[input];
    const std::size_t bytes = byte_size(tensor, value.shape);
    const bool changed = enter(pair, value.shape);
    const DeviceBuffer& buffer = pair.at(parity_);
    buffer.block()->readers().make_wait({stream});
    if (value.source == Source::host && !value.strides.empty()) {
        const auto row_major = packed(value.data, value.shape, value.strides, tensor.bits / 8);
        TRTW_CUDA(cudaMemcpyAsync(buffer.data(), row_major.data(), bytes, cudaMemcpyHostToDevice, stream));
        TRTW_CUDA(cudaStreamSynchronize(stream));
    } else {
        TRTW_CUDA(cudaMemcpyAsync(buffer.data(), value.data, bytes, cudaMemcpyDefault, stream));
        if (value.source == Source::host) {
            TRTW_CUDA(cudaStreamSynchronize(stream));
        }
    }
    return changed;
}

bool StateStore::fill(std::size_t input, cudaStream_t stream) {
    Pair& pair = pair_at(input);
    if (pair.has_value) {
        return false;
    }
    const TensorInfo& tensor = plan_->inputs()[input];
    const bool changed = enter(pair, tensor.shape);
    const DeviceBuffer& buffer = pair.at(parity_);
    buffer.block()->readers().make_wait({stream});
    TRTW_CUDA(cudaMemsetAsync(buffer.data(), 0, byte_size(tensor, tensor.shape), stream));
    return changed;
}

void StateStore::reset() noexcept {
    for (Pair& pair : pairs_) {
        pair.has_value = false;
    }
}

bool StateStore::leave_lent(cudaStream_t stream) {
    bool changed = false;
    for (Pair& pair : pairs_) {
        DeviceBuffer& buffer = pair.at(1 - parity_);
        if (buffer.is_lent()) {
            DeviceBuffer fresh;
            if (pair.in_place && pair.has_value) {
                copy_value(fresh, buffer, stream);
            }
            buffer = std::move(fresh);
            changed = true;
        } else if (buffer.block()) {
            buffer.block()->readers().make_wait({stream});
        }
    }
    return changed;
}

bool StateStore::reserve_output(std::size_t output, std::size_t bytes, int profile) {
    Pair& pair = pairs_[static_cast<std::size_t>(by_output_[output])];
    return !pair.in_place && reserve(pair.at(1 - parity_), pair, bytes, profile);
}

bool StateStore::turns() const noexcept {
    return std::ranges::any_of(pairs_, [](const Pair& pair) { return !pair.in_place; });
}

void StateStore::advance(const std::vector<Shape>& output_shapes) {
    keep();
    for (Pair& pair : pairs_) {
        if (pair.shape != output_shapes[pair.output]) { // seldom: a comparison takes less than a copy
            pair.shape = output_shapes[pair.output];
        }
    }
    parity_ = turns() ? 1 - parity_ : parity_; // else one graph serves every call
}

StateValue StateStore::value(std::size_t input) const {
    const Pair& pair = pair_at(input);
    return pair.has_value ? StateValue{pair.at(parity_).block(), pair.shape} : StateValue{};
}

const std::shared_ptr<DeviceMemory>& StateStore::output_block(std::size_t output) const noexcept {
    return pairs_[static_cast<std::size_t>(by_output_[output])].at(1 - parity_).block();
}

std::size_t StateStore::device_bytes() const noexcept {
    std::size_t total = 0;
    for (const Pair& pair : pairs_) {
        total += pair.buffers[0].capacity() + pair.buffers[1].capacity() + pair.room.capacity();
    }
    return total;
}

} // namespace trtw
