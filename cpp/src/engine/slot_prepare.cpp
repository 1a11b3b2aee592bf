// Works out what a call needs: shapes, profile, memory, a context with everything bound.
#include "trtw/device/check.hpp"
#include "trtw/engine/host_array.hpp"
#include "trtw/engine/profile_choice.hpp"
#include "trtw/engine/slice.hpp"
#include "trtw/engine/slot.hpp"

#include <algorithm>

namespace trtw::engine {

namespace {

// Up to here one stream and one graph for copies and compute costs less than the overlap of filling the pinned
// buffer with the transfer gains.
constexpr std::size_t kFuseLimit = std::size_t{2} << 20U;

} // namespace

void Slot::take_state(const Call& call) {
    bool changed = false;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        if (state_.pair_of_input(i) < 0) {
            continue;
        }
        if (call.inputs[i].source != Source::state) {
            set_state(i, call.inputs[i]);
        }
        shapes_[i] = state_.next_input(i, compute_.get(), changed);
    }
    generation_ += changed ? 1 : 0;
}

void Slot::take_shapes(const Call& call) {
    const std::vector<TensorInfo>& inputs = plan_->inputs();
    shapes_.resize(inputs.size());
    values_.resize(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (call.inputs[i].source != Source::state) {
            shapes_[i] = call.inputs[i].shape;
        }
    }
    if (!state_.empty()) {
        take_state(call);
    }
    stage_shape_tensors(call);
}

// TensorRT reads shape tensors from host memory when shapes are set, so they are put in place first.
void Slot::stage_shape_tensors(const Call& call) {
    const std::vector<TensorInfo>& inputs = plan_->inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!inputs[i].on_host) {
            continue;
        }
        if (call.inputs[i].source != Source::host) {
            throw UsageProblem("Input '" + inputs[i].name +
                               "' is a shape tensor: TensorRT reads it in host memory; pass a numpy array.");
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
    key_.push_back(state_.parity());
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

Prepared& Slot::prepare(const Call& call) {
    take_shapes(call);
    make_key(call);
    if (last_ != nullptr && key_ == last_key_) {
        return *last_;
    }
    last_ = nullptr; // a new entry may evict the last one
    Prepared& entry = contexts_.entry(key_);
    if (entry.profile < 0) {
        work_out(call, entry);
    }
    last_key_ = key_;
    last_ = &entry;
    return entry;
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
        roamer.execution->bind_input(i, input_address(call, i));
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
    entry.profile = profile;
    reserve_outputs(call, entry);
    bind(call, entry, *roamer.execution);
    roamer.key = key_;
    roamer.bound = generation_;
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

void Slot::reserve_outputs(const Call& call, const Prepared& entry) {
    for (std::size_t o = 0; o < io_.outputs.size(); ++o) {
        if (entry.output_data_dependent[o]) {
            continue;
        }
        const TensorInfo& tensor = plan_->outputs()[o];
        const std::size_t bytes = byte_size(tensor, entry.output_shapes[o]);
        if (state_.pair_of_output(o) >= 0) {
            generation_ += state_.reserve_output(o, bytes, entry.profile) ? 1 : 0;
        } else if (!tensor.on_host) {
            generation_ += io_.outputs[o].device().reserve(bytes) ? 1 : 0;
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
        OutputBuffers& buffers = io_.outputs[o];
        if (entry.output_data_dependent[o]) {
            execution.bind_allocator(o, *buffers.allocator);
        } else if (state_.pair_of_output(o) >= 0) {
            execution.bind_output(o, state_.output_block(o)->data());
        } else {
            execution.bind_output(o, plan_->outputs()[o].on_host ? buffers.host.data() : buffers.device().data());
        }
    }
}

Execution& Slot::set_up(const Call& call, Prepared& entry) {
    if (entry.own) {
        if (entry.bound != generation_) {
            entry.graph = {};
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
    return *roamer.execution;
}

} // namespace trtw::engine
