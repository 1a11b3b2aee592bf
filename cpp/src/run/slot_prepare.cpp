// Works out what a call needs: shapes, profile, memory, a context with everything bound.
#include "device/check.hpp"
#include "run/host_array.hpp"
#include "run/profile_choice.hpp"
#include "run/slice.hpp"
#include "run/slot.hpp"

#include <algorithm>

namespace trtw::engine {

namespace {

// Up to here one stream and one graph for copies and compute costs less than the overlap of filling the pinned
// buffer with the transfer gains.
constexpr std::size_t kFuseLimit = std::size_t{2} << 20U;

} // namespace

// Everything that can be refused without asking the engine's profiles. Changes nothing.
void Slot::check(const Call& call) const {
    check_call(plan_->inputs(), plan_->outputs().size(), call);
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        const bool is_given = call.inputs[i].source != Source::state;
        if (state_.pair_of_input(i) < 0) {
            if (!is_given) {
                throw UsageProblem("Input '" + plan_->inputs()[i].name +
                                   "' is no state of this runner: it needs a "
                                   "value in every call.");
            }
        } else if (is_given) {
            state_.check(i, call.inputs[i]);
        }
    }
}

void Slot::drop_outputs() noexcept {
    for (Output& output : outputs_) {
        output.device.reset(); // what is held still is held by others
    }
}

// What others still hold of earlier calls' outputs is not written again, and what they read before they let go of it is
// waited for.
void Slot::leave_lent_memory() {
    drop_outputs();
    generation_ += io_.turn_to_free_outputs() ? 1 : 0;
    for (std::size_t o = 0; o < io_.outputs.size(); ++o) {
        if (const auto& block = io_.output(o).block()) {
            block->readers().make_wait({compute_.get()});
        }
        if (aliased_[o] < 0) {
            continue;
        }
        device::DeviceBuffer& input = io_.inputs[static_cast<std::size_t>(aliased_[o])].device;
        if (input.is_lent()) {
            input.release();
            ++generation_;
        } else if (input.block()) {
            input.block()->readers().make_wait({input_.get(), compute_.get()});
        }
    }
    generation_ += state_.leave_lent(compute_.get()) ? 1 : 0;
}

void Slot::take_shapes(const Call& call) {
    const std::vector<TensorInfo>& inputs = plan_->inputs();
    shapes_.resize(inputs.size());
    values_.resize(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        shapes_[i] = call.inputs[i].source == Source::state ? state_.next_shape(i) : call.inputs[i].shape;
    }
    stage_shape_tensors(call);
}

void Slot::set_state(std::size_t input, const Input& value) {
    if (value.source == Source::device && value.producer) {
        produced_.record(*value.producer);
        compute_.wait(produced_);
    }
    generation_ += state_.set(input, value, compute_.get()) ? 1 : 0;
}

// The last thing that may find no memory, and from there on the first that changes state.
void Slot::take_state(const Call& call) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        if (state_.pair_of_input(i) >= 0 && (call.inputs[i].source != Source::state || !state_.has_value(i))) {
            state_.make_room(i, shapes_[i]);
        }
    }
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        if (state_.pair_of_input(i) < 0) {
            continue;
        }
        if (call.inputs[i].source != Source::state) {
            set_state(i, call.inputs[i]);
        } else {
            generation_ += state_.fill(i, compute_.get()) ? 1 : 0;
        }
    }
}

// TensorRT reads shape tensors from host memory when shapes are set, so they are put in place first.
void Slot::stage_shape_tensors(const Call& call) {
    const std::vector<TensorInfo>& inputs = plan_->inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!inputs[i].on_host) {
            continue;
        }
        device::PinnedBuffer& buffer = io_.inputs[i].host;
        generation_ += buffer.reserve(byte_size(inputs[i], shapes_[i])) ? 1 : 0;
        stage(call, i);
        values_[i] = shape_values(inputs[i], shapes_[i], buffer.data());
    }
}

bool Slot::wants_host(const Call& call, std::size_t output) const {
    return call.to_host ? (*call.to_host)[output] : default_to_host_[output];
}

std::optional<std::int64_t> Slot::host_index(const Call& call, std::size_t output) const {
    return call.at.empty() || !wants_host(call, output) ? std::nullopt : call.at[output];
}

// Of what the host gets of an output of this shape. Throws UsageProblem for an index that the output does not have.
std::size_t Slot::host_bytes(const Call& call, std::size_t output, const Shape& shape) const {
    const TensorInfo& tensor = plan_->outputs()[output];
    const std::optional<std::int64_t> index = host_index(call, output);
    if (!index) {
        return byte_size(tensor, shape);
    }
    if (tensor.on_host) {
        throw UsageProblem("Output '" + tensor.name +
                           "' is written in host memory by TensorRT; it can be had as a whole only.");
    }
    return slice_at(tensor, shape, *index).bytes();
}

void Slot::make_key(const Call& call) {
    key_.clear();
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
        const Input& input = call.inputs[i];
        const bool is_state = state_.pair_of_input(i) >= 0;
        key_.push_back(static_cast<std::int64_t>(is_state ? Source::state : input.source));
        key_.push_back(static_cast<std::int64_t>(shapes_[i].size()));
        key_.insert(key_.end(), shapes_[i].begin(), shapes_[i].end());
        if (input.source == Source::device && !is_state) {
            key_.push_back(reinterpret_cast<std::intptr_t>(input.data));
        }
        key_.insert(key_.end(), values_[i].begin(), values_[i].end());
    }
    for (std::size_t o = 0; o < io_.outputs.size(); ++o) {
        key_.push_back(wants_host(call, o) ? 1 : 0);
        if (const auto index = host_index(call, o)) {
            key_.back() = 2;
            key_.push_back(*index);
        }
    }
    key_.push_back(state_.parity() + 2 * static_cast<int>(io_.set));
}

void* Slot::input_address(const Call& call, std::size_t input) const {
    if (state_.pair_of_input(input) >= 0) {
        return state_.input_address(input);
    }
    if (call.inputs[input].source == Source::device) {
        return const_cast<void*>(call.inputs[input].data); // TensorRT only reads inputs
    }
    return plan_->inputs()[input].on_host ? io_.inputs[input].host.data() : io_.inputs[input].device.data();
}

void* Slot::output_address(const Call& call, std::size_t output) {
    if (aliased_[output] >= 0) {
        return input_address(call, static_cast<std::size_t>(aliased_[output]));
    }
    if (state_.pair_of_output(output) >= 0) {
        return state_.output_block(output)->data();
    }
    return plan_->outputs()[output].on_host ? io_.outputs[output].host.data() : io_.output(output).data();
}

// Null where the memory is none of the slot's.
std::shared_ptr<device::DeviceMemory> Slot::output_block(const Call& call, std::size_t output) {
    if (state_.pair_of_output(output) >= 0) {
        return state_.output_block(output);
    }
    if (aliased_[output] < 0) {
        return io_.output(output).block();
    }
    const auto input = static_cast<std::size_t>(aliased_[output]);
    if (state_.pair_of_input(input) >= 0) {
        return state_.value(input).memory;
    }
    return call.inputs[input].source == Source::device ? nullptr : io_.inputs[input].device.block();
}

Prepared& Slot::prepare(const Call& call) {
    check(call);
    if (weights_ != plan_->gate().changes()) {
        weights_ = plan_->gate().changes();
        ++generation_; // graphs may hold weights by value
    }
    leave_lent_memory();
    take_shapes(call);
    make_key(call);
    if (last_ == nullptr || key_ != last_key_) {
        last_ = nullptr; // a new entry may evict the last one
        Prepared& entry = contexts_.entry(key_);
        if (entry.profile < 0) {
            work_out(call, entry);
        }
        if (!entry.own) {
            contexts_.roamer(entry.profile, compute_.get()); // may be refused, so before state changes
        }
        last_key_ = key_;
        last_ = &entry;
    }
    if (!state_.empty()) {
        take_state(call);
    }
    return *last_;
}

void Slot::work_out(const Call& call, Prepared& entry) {
    const std::vector<TensorInfo>& inputs = plan_->inputs();
    const int profile = choose_profile(inputs, CallShapes{shapes_, values_}, options_.profile);
    entry.input_bytes.clear();
    std::size_t from_host = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        entry.input_bytes.push_back(byte_size(inputs[i], shapes_[i]));
        from_host += call.inputs[i].source == Source::host ? entry.input_bytes.back() : 0;
    }
    entry.fused = options_.graph_includes_transfers.value_or(from_host <= kFuseLimit);
    reserve_inputs(call, entry);
    ContextCache::Roamer& roamer = contexts_.roamer(profile, compute_.get());
    roamer.key.clear();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (void* address = input_address(call, i)) { // state may have no memory yet: no call is refused after it has
            roamer.execution->bind_input(i, address);
        }
    }
    roamer.execution->set_shapes(shapes_);
    entry.output_shapes.clear();
    entry.output_data_dependent.clear();
    for (std::size_t o = 0; o < plan_->outputs().size(); ++o) {
        const std::optional<Shape> shape = roamer.execution->output_shape(o);
        entry.output_shapes.push_back(shape.value_or(Shape{}));
        entry.output_data_dependent.push_back(!shape);
        entry.data_dependent = entry.data_dependent || !shape;
        if (shape) {
            static_cast<void>(host_bytes(call, o, *shape)); // refuses before anything counts on this entry
        }
        if (!shape && state_.pair_of_output(o) >= 0) {
            throw UsageProblem("State output '" + plan_->outputs()[o].name +
                               "' has a shape that depends on the data; it cannot be kept as state.");
        }
    }
    if (entry.data_dependent) {
        entry.fused = false;
        entry.no_graph = "an output's shape depends on the data, so a captured graph could not hold it";
    } else if (std::any_of(plan_->outputs().begin(), plan_->outputs().end(),
                           [](const TensorInfo& output) { return output.on_host; })) {
        // A replay would leave what another call wrote there.
        entry.no_graph = "TensorRT writes an output in host memory while it enqueues, which a graph does not repeat";
    }
    entry.capture_failed = !entry.no_graph.empty();
    reserve_outputs(call, entry, profile);
    entry.profile = profile;
}

void Slot::reserve_inputs(const Call& call, const Prepared& entry) {
    for (std::size_t i = 0; i < io_.inputs.size(); ++i) {
        const Source source = call.inputs[i].source;
        if (state_.pair_of_input(i) >= 0 || source == Source::device || plan_->inputs()[i].on_host) {
            continue;
        }
        generation_ += io_.inputs[i].device.reserve(entry.input_bytes[i]) ? 1 : 0;
        if (source == Source::host) {
            generation_ += io_.inputs[i].host.reserve(entry.input_bytes[i]) ? 1 : 0;
        }
    }
}

void Slot::reserve_outputs(const Call& call, const Prepared& entry, int profile) {
    for (std::size_t o = 0; o < io_.outputs.size(); ++o) {
        if (entry.output_data_dependent[o]) {
            continue;
        }
        const TensorInfo& tensor = plan_->outputs()[o];
        const std::size_t bytes = byte_size(tensor, entry.output_shapes[o]);
        if (state_.pair_of_output(o) >= 0) {
            generation_ += state_.reserve_output(o, bytes, profile) ? 1 : 0;
        } else if (!tensor.on_host && aliased_[o] < 0) {
            generation_ += io_.output(o).reserve(bytes) ? 1 : 0;
        }
        if (tensor.on_host || wants_host(call, o)) {
            generation_ += io_.outputs[o].host.reserve(host_bytes(call, o, entry.output_shapes[o])) ? 1 : 0;
        }
    }
}

void Slot::bind(const Call& call, const Prepared& entry, Execution& execution) {
    for (std::size_t i = 0; i < io_.inputs.size(); ++i) {
        execution.bind_input(i, input_address(call, i));
    }
    for (std::size_t o = 0; o < io_.outputs.size(); ++o) {
        if (entry.output_data_dependent[o]) {
            execution.bind_allocator(o, io_.allocator(o));
        } else {
            execution.bind_output(o, output_address(call, o));
        }
    }
}

Execution& Slot::set_up(const Call& call, Prepared& entry) {
    // Others may have kept the memory that the entry was worked out with.
    if (entry.bound != generation_) {
        reserve_inputs(call, entry);
        reserve_outputs(call, entry, entry.profile);
    }
    if (entry.own) {
        if (entry.bound != generation_) {
            entry.graph = {};
            entry.uses = 0; // captured again once the addresses stay: a capture takes far longer than a call
            bind(call, entry, *entry.own);
            entry.bound = generation_;
        }
        return *entry.own;
    }
    ContextCache::Roamer& roamer = contexts_.roamer(entry.profile, compute_.get());
    if (roamer.key != key_ || roamer.bound != generation_) {
        roamer.key.clear();
        bind(call, entry, *roamer.execution);
        roamer.execution->set_shapes(shapes_);
        roamer.key = key_;
        roamer.bound = generation_;
    }
    entry.bound = generation_;
    return *roamer.execution;
}

} // namespace trtw::engine
