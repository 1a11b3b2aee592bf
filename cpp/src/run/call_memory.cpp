#include "run/call_memory.hpp"

#include "device/check.hpp"
#include "run/channels_last.hpp"

namespace trtw {

CallMemory::CallMemory(const Plan& plan, const RunnerOptions& options)
    : outputs(plan.outputs().size()), plan_{&plan}, to_host_{plan, options}, moved_(plan.inputs().size()), io_{plan},
      copies_(plan.outputs().size()), state_{plan, options.state} {
    for (std::size_t o = 0; o < plan.outputs().size(); ++o) {
        aliased_.push_back(plan.aliased_input(o));
    }
}

void CallMemory::drop_outputs() noexcept {
    for (Output& output : outputs) {
        output.device.reset(); // what is held still is held by others
        output.in_place = false;
    }
}

void CallMemory::leave_lent(const Lanes& lanes) {
    drop_outputs();
    io_.turn_to_free_outputs();
    for (std::size_t o = 0; o < io_.outputs.size(); ++o) {
        if (const auto& block = io_.output(o).block()) {
            block->readers().make_wait({lanes.work});
        }
        if (!aliased_[o]) {
            continue;
        }
        DeviceBuffer& input = io_.inputs[*aliased_[o]].device;
        if (input.is_lent()) {
            input.release();
            count_change();
        } else if (input.block()) {
            input.block()->readers().make_wait({lanes.input.get(), lanes.work});
        }
    }
    count_change(state_.leave_lent(lanes.work));
}

void CallMemory::set_state(std::size_t input, const Input& value, Lanes& lanes) {
    if (value.source == Source::device && value.producer) {
        lanes.wait_for(*value.producer);
    }
    count_change(state_.set(input, value, lanes.work));
}

void CallMemory::take_state(const Call& call, const Prepared& entry, const std::vector<Shape>& shapes, Lanes& lanes) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        const bool is_given = call.inputs[i].source != Source::state;
        if (is_state_input(i) && (is_given || !state_.has_value(i))) {
            state_.make_room(i, shapes[i], is_given && entry.data_dependent);
        }
    }
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        if (!is_state_input(i)) {
            continue;
        }
        if (call.inputs[i].source != Source::state) {
            set_state(i, call.inputs[i], lanes);
        } else if (!state_.has_value(i)) {
            count_change(state_.fill(i, lanes.work));
        }
    }
}

void CallMemory::reset_state(const std::vector<std::pair<std::size_t, Input>>& values, Lanes& lanes) {
    for (const auto& [input, value] : values) {
        if (input >= plan_->inputs().size() || !is_state_input(input)) {
            throw UsageProblem("Input " + std::to_string(input) + " of the engine is not a state of this runner.");
        }
        state_.check(input, value);
    }
    drop_outputs();
    for (const auto& [input, value] : values) {
        state_.make_room(input, value.shape, false);
    }
    state_.reset();
    try {
        for (const auto& [input, value] : values) {
            set_state(input, value, lanes);
        }
    } catch (...) {
        state_.reset();
        static_cast<void>(cudaStreamSynchronize(lanes.work)); // the values before it may still be copied
        throw;
    }
    state_.keep();
    TRTW_CUDA(cudaStreamSynchronize(lanes.work));
}

void* CallMemory::input_address(const Call& call, std::size_t input) const {
    if (is_state_input(input)) {
        return state_.input_address(input);
    }
    if (call.inputs[input].source == Source::device && !moved_[input]) {
        return const_cast<void*>(call.inputs[input].data); // TensorRT only reads inputs
    }
    return plan_->inputs()[input].on_host ? io_.inputs[input].host.data() : io_.inputs[input].device.data();
}

void CallMemory::pack_inputs(const Call& call, cudaStream_t stream) const {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        const TensorInfo& tensor = plan_->inputs()[i];
        if (!tensor.is_linear && call.inputs[i].source != Source::images) {
            pack_on_device(tensor, call.inputs[i].shape, input_address(call, i), bound_address(call, i), stream);
        }
    }
}

void* CallMemory::output_address(const Call& call, std::size_t output) {
    if (aliased_[output]) {
        return input_address(call, *aliased_[output]);
    }
    if (is_state_output(output)) {
        return state_.output_block(output)->data();
    }
    return plan_->outputs()[output].on_host ? io_.outputs[output].host.data() : io_.output(output).data();
}

std::shared_ptr<DeviceMemory> CallMemory::output_block(const Call& call, std::size_t output) {
    if (is_state_output(output)) {
        return state_.output_block(output);
    }
    if (!aliased_[output]) {
        return io_.hands_out_copies() ? copies_[output] : io_.output(output).block();
    }
    const std::size_t input = *aliased_[output];
    if (is_state_input(input)) {
        return state_.value(input).memory;
    }
    return call.inputs[input].source == Source::device ? nullptr : io_.inputs[input].device.block();
}

void CallMemory::reserve_inputs(const Call& call, const Prepared& entry) {
    for (std::size_t i = 0; i < io_.inputs.size(); ++i) {
        const Source source = call.inputs[i].source;
        const TensorInfo& tensor = plan_->inputs()[i];
        if (!tensor.is_linear) {
            count_change(io_.inputs[i].packed.reserve(bound_bytes(tensor, call.inputs[i].shape)));
        }
        if (is_state_input(i) || (source == Source::device && !moved_[i]) || tensor.on_host ||
            (source == Source::images && !tensor.is_linear)) {
            continue;
        }
        count_change(io_.inputs[i].device.reserve(entry.input_bytes[i]));
        if (source == Source::host) {
            count_change(io_.inputs[i].host.reserve(entry.input_bytes[i]));
        }
    }
}

void CallMemory::reserve_outputs(const Call& call, const Prepared& entry, int profile) {
    for (std::size_t o = 0; o < io_.outputs.size(); ++o) {
        if (entry.output_data_dependent[o]) {
            continue;
        }
        const TensorInfo& tensor = plan_->outputs()[o];
        const std::size_t bytes = entry.output_bytes[o];
        if (is_state_output(o)) {
            count_change(state_.reserve_output(o, bytes, profile));
        } else if (!tensor.on_host && !aliased_[o]) {
            count_change(io_.output(o).reserve(bytes));
        }
        if (tensor.on_host || to_host_.wanted(call, o)) {
            count_change(io_.outputs[o].host.reserve(to_host_.bytes(call, o, entry.output_shapes[o])));
        }
    }
}

bool CallMemory::hands_out_copy(const Call& call, std::size_t output) const {
    return io_.hands_out_copies() && !is_state_output(output) && !aliased_[output] &&
           !plan_->outputs()[output].on_host && (!call.to_device || (*call.to_device)[output]);
}

void CallMemory::reserve_copies(const Call& call, const Prepared& entry, const Lanes& lanes) {
    for (std::size_t o = 0; o < copies_.size(); ++o) {
        copies_[o].reset();
        if (hands_out_copy(call, o) && !entry.output_data_dependent[o]) {
            copies_[o] = blocks_.take(entry.output_bytes[o]);
            copies_[o]->readers().make_wait({lanes.work});
        }
    }
}

void CallMemory::move_inputs(const Call& call, const Prepared& entry, cudaStream_t stream) const {
    for (std::size_t i = 0; i < moved_.size(); ++i) {
        if (moved_[i]) {
            TRTW_CUDA(cudaMemcpyAsync(io_.inputs[i].device.data(), call.inputs[i].data, entry.input_bytes[i],
                                      cudaMemcpyDeviceToDevice, stream));
        }
    }
}

void CallMemory::copy_outputs(const Call& call, const std::vector<Shape>& shapes, cudaStream_t stream) {
    for (std::size_t o = 0; o < copies_.size(); ++o) {
        if (!hands_out_copy(call, o)) {
            continue;
        }
        const std::size_t bytes = byte_size(plan_->outputs()[o], shapes[o]);
        if (!copies_[o]) { // its shape was not known before
            copies_[o] = blocks_.take(bytes);
            copies_[o]->readers().make_wait({stream});
        }
        if (bytes > 0) {
            TRTW_CUDA(
                cudaMemcpyAsync(copies_[o]->data(), io_.output(o).data(), bytes, cudaMemcpyDeviceToDevice, stream));
        }
    }
}

std::shared_ptr<PinnedMemory> CallMemory::input_block(std::size_t input, std::size_t bytes) {
    lends_inputs_ = true;
    count_change(io_.inputs[input].host.reserve(bytes));
    return io_.inputs[input].host.block();
}

} // namespace trtw
