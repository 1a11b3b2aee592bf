#include "run/call_planner.hpp"

#include "run/profile_choice.hpp"

#include <algorithm>

namespace trtw {

namespace {

// Up to here one stream for copies and compute costs less than a stream for each gains.
constexpr std::size_t fuse_limit = std::size_t{2} << 20U;

} // namespace

CallPlanner::CallPlanner(std::shared_ptr<const Plan> plan, const RunnerOptions& options, Lanes& lanes,
                         CallMemory& memory, Transfers& transfers)
    : plan_{std::move(plan)}, options_{&options}, lanes_{&lanes}, memory_{&memory}, transfers_{&transfers},
      contexts_{plan_, (scratch_.reserve(plan_->device_memory_bytes()), scratch_.data()),
                static_cast<std::size_t>(std::max(options.graph_cache, 1)) * (memory.state().turns() ? 2 : 1)},
      reads_host_{std::ranges::any_of(plan_->inputs(), &TensorInfo::on_host)} {}

// Everything that can be refused without asking the engine's profiles. Changes nothing.
void CallPlanner::check(const Call& call) const {
    check_call(plan_->inputs(), plan_->outputs().size(), call);
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        const bool is_given = call.inputs[i].source != Source::state;
        if (!memory_->is_state_input(i)) {
            if (!is_given) {
                throw UsageProblem("Input '" + plan_->inputs()[i].name +
                                   "' is not a state of this runner: it needs a value in every call.");
            }
        } else if (is_given) {
            memory_->state().check(i, call.inputs[i]);
        }
    }
}

void CallPlanner::take_shapes(const Call& call) {
    const std::vector<TensorInfo>& inputs = plan_->inputs();
    shapes_.resize(inputs.size());
    values_.resize(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        shapes_[i] = call.inputs[i].source == Source::state ? memory_->state().next_shape(i) : call.inputs[i].shape;
    }
    stage_shape_tensors(call);
}

// TensorRT reads shape tensors from host memory when shapes are set, so they are put in place first.
void CallPlanner::stage_shape_tensors(const Call& call) {
    const std::vector<TensorInfo>& inputs = plan_->inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!inputs[i].on_host) {
            continue;
        }
        PinnedBuffer& buffer = memory_->io().inputs[i].host;
        memory_->count_change(buffer.reserve(byte_size(inputs[i], shapes_[i])));
        transfers_->stage(call, i);
        values_[i] = shape_values(inputs[i], shapes_[i], buffer.data());
    }
}

void CallPlanner::make_key(const Call& call) {
    key_.clear();
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
        const Input& input = call.inputs[i];
        const bool is_state = memory_->is_state_input(i);
        key_.push_back(static_cast<std::int64_t>(is_state ? Source::state : input.source));
        key_.push_back(static_cast<std::int64_t>(shapes_[i].size()));
        key_.insert(key_.end(), shapes_[i].begin(), shapes_[i].end());
        if (input.source == Source::device && !is_state) {
            key_.push_back(reinterpret_cast<std::intptr_t>(input.data));
        }
        key_.insert(key_.end(), values_[i].begin(), values_[i].end());
    }
    for (std::size_t o = 0; o < plan_->outputs().size(); ++o) {
        key_.push_back(memory_->to_host().wanted(call, o) ? 1 : 0);
        if (const auto index = memory_->to_host().index(call, o)) {
            key_.back() = 2;
            key_.push_back(*index);
        }
    }
    key_.push_back(memory_->state().parity() + 2 * static_cast<int>(memory_->io().set));
}

Prepared& CallPlanner::prepare(const Call& call) {
    check(call);
    if (weights_ != plan_->gate().changes()) {
        weights_ = plan_->gate().changes();
        memory_->count_change(); // graphs may hold weights by value
    }
    memory_->leave_lent(*lanes_);
    take_shapes(call);
    make_key(call);
    if (last_ == nullptr || key_ != last_key_) {
        last_ = nullptr; // a new entry may evict the last one
        Prepared& entry = contexts_.entry(key_);
        if (entry.profile < 0) {
            work_out(call, entry);
        }
        if (!entry.own) {
            contexts_.roamer(entry.profile, lanes_->compute.get()); // may be refused, so before state changes
        }
        last_key_ = key_;
        last_ = &entry;
    }
    Prepared& entry = *last_;
    if (entry.bound != memory_->generation()) { // others may have kept the memory that it was worked out with
        memory_->reserve_inputs(call, entry);
        memory_->reserve_outputs(call, entry, entry.profile);
    }
    for (std::size_t o = 0; !call.room.empty() && o < entry.output_shapes.size(); ++o) {
        if (!entry.output_data_dependent[o]) {
            memory_->to_host().check_room(call, o, entry.output_shapes[o]);
        }
    }
    if (!memory_->state().empty()) {
        memory_->take_state(call, entry, shapes_, *lanes_);
    }
    return entry;
}

void CallPlanner::work_out(const Call& call, Prepared& entry) {
    const std::vector<TensorInfo>& inputs = plan_->inputs();
    const int profile = choose_profile(inputs, CallShapes{shapes_, values_}, options_->profile);
    entry.input_bytes.clear();
    std::size_t from_host = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        entry.input_bytes.push_back(byte_size(inputs[i], shapes_[i]));
        from_host += call.inputs[i].source == Source::host ? entry.input_bytes.back() : 0;
        entry.inputs_apart =
            entry.inputs_apart || (memory_->is_copied(call, i) && is_copied_apart(entry.input_bytes.back()));
    }
    entry.fused = options_->graph_includes_transfers.value_or(from_host <= fuse_limit);
    memory_->reserve_inputs(call, entry);
    ContextCache::Roamer& roamer = contexts_.roamer(profile, lanes_->compute.get());
    roamer.key.clear();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        // State may have no memory yet: no call is refused after it has.
        if (void* address = memory_->input_address(call, i)) {
            roamer.execution->bind_input(i, address);
        }
    }
    give_shapes(roamer);
    entry.output_shapes.clear();
    entry.output_data_dependent.clear();
    for (std::size_t o = 0; o < plan_->outputs().size(); ++o) {
        const std::optional<Shape> shape = roamer.execution->output_shape(o);
        entry.output_shapes.push_back(shape.value_or(Shape{}));
        entry.output_data_dependent.push_back(!shape);
        entry.data_dependent = entry.data_dependent || !shape;
        if (shape) {
            static_cast<void>(
                memory_->to_host().bytes(call, o, *shape)); // refuses before anything counts on this entry
        }
        if (!shape && memory_->is_state_output(o)) {
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
        entry.no_graph = "TensorRT writes an output to host memory during the enqueue, which a graph does not repeat";
    } else if (plan_->streams_weights()) {
        entry.no_graph = no_graph_of_streamed_weights;
    }
    entry.capture_failed = !entry.no_graph.empty();
    entry.profile = profile;
}

// Shapes follow from the values of shape tensors, too, wherever those were bound last.
void CallPlanner::give_shapes(ContextCache::Roamer& roamer) {
    if (reads_host_ || roamer.shapes != shapes_) {
        roamer.shapes.reset();
        roamer.execution->set_shapes(shapes_);
        roamer.shapes = shapes_;
    }
}

void CallPlanner::bind(const Call& call, const Prepared& entry, Execution& execution) {
    for (std::size_t i = 0; i < plan_->inputs().size(); ++i) {
        execution.bind_input(i, memory_->input_address(call, i));
    }
    for (std::size_t o = 0; o < plan_->outputs().size(); ++o) {
        if (entry.output_data_dependent[o]) {
            execution.bind_allocator(o, memory_->io().allocator(o));
        } else {
            execution.bind_output(o, memory_->output_address(call, o));
        }
    }
}

Execution& CallPlanner::set_up(const Call& call, Prepared& entry) {
    const std::uint64_t generation = memory_->generation();
    if (entry.own) {
        if (entry.bound != generation) {
            entry.graph = {};
            entry.uses = 0; // captured again once the addresses stay: a capture takes far longer than a call
            bind(call, entry, *entry.own);
            entry.bound = generation;
        }
        return *entry.own;
    }
    ContextCache::Roamer& roamer = contexts_.roamer(entry.profile, lanes_->compute.get());
    if (roamer.key != key_ || roamer.bound != generation) {
        roamer.key.clear();
        bind(call, entry, *roamer.execution);
        give_shapes(roamer);
        roamer.key = key_;
        roamer.bound = generation;
    }
    entry.bound = generation;
    return *roamer.execution;
}

void CallPlanner::forget() noexcept {
    last_ = nullptr;
    contexts_.clear();
    last_key_.clear();
}

} // namespace trtw
