#include "run/call_planner.hpp"

#include "run/profile_choice.hpp"

#include <algorithm>
#include <span>

namespace trtw {

namespace {

// Up to here one stream for copies and compute costs less than a stream for each gains.
constexpr std::size_t fuse_limit = std::size_t{2} << 20U;

// Device arrays of one shape that come at more addresses than this are copied, unless they are larger: each address has
// a context and a graph of its own, and to make these takes far longer than a copy within the device.
constexpr int most_in_place = 4;
constexpr std::size_t most_moved_bytes = std::size_t{16} << 20U;
// So many calls in succession from the same new addresses take the place of older addresses.
constexpr int moves_until_in_place = 8;

} // namespace

CallPlanner::CallPlanner(std::shared_ptr<const Plan> plan, const RunnerOptions& options, Lanes& lanes,
                         CallMemory& memory, Transfers& transfers, std::function<void()> settle)
    : plan_{std::move(plan)}, options_{&options}, lanes_{&lanes}, memory_{&memory}, transfers_{&transfers},
      contexts_{plan_, (scratch_.reserve(plan_->device_memory_bytes()), scratch_.data()),
                static_cast<std::size_t>(std::max(options.graph_cache, 1)), std::move(settle)},
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

const Shape& CallPlanner::shape_of(const Call& call, std::size_t input) const {
    const Input& given = call.inputs[input];
    return given.source == Source::state ? memory_->state().next_shape(input) : given.shape;
}

void CallPlanner::take_shapes(const Call& call) {
    shapes_.resize(call.inputs.size());
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
        shapes_[i] = shape_of(call, i);
    }
}

// TensorRT reads shape tensors from host memory when shapes are set, so they are put in place first.
void CallPlanner::stage_shape_tensors(const Call& call) {
    const std::vector<TensorInfo>& inputs = plan_->inputs();
    values_.resize(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!inputs[i].on_host) {
            continue;
        }
        const Shape& shape = call.inputs[i].shape;
        PinnedBuffer& buffer = memory_->io().inputs[i].host;
        memory_->count_change(buffer.reserve(byte_size(inputs[i], shape)));
        transfers_->stage(call, i);
        values_[i] = shape_values(inputs[i], shape, buffer.data());
    }
}

void CallPlanner::make_key(const Call& call) {
    key_.clear();
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        const Shape& shape = shape_of(call, i);
        const bool is_state = memory_->is_state_input(i);
        key_.push_back(static_cast<std::int64_t>(is_state ? Source::state : call.inputs[i].source));
        key_.push_back(static_cast<std::int64_t>(shape.size()));
        for (const std::int64_t size : shape) { // few: `insert` takes longer
            key_.push_back(size);
        }
        for (const std::int64_t value : values_[i]) {
            key_.push_back(value);
        }
    }
}

bool CallPlanner::is_movable(const Prepared& entry, std::size_t input) const {
    return entry.input_bytes[input] <= most_moved_bytes && !memory_->is_aliased(input);
}

// Whether a device array at addresses that are new for these choices of outputs is read where it lies.
bool CallPlanner::reads_in_place(Prepared& entry, std::size_t choices) {
    const auto is_alike = [&](const auto& binding) {
        return binding->in_place && std::equal(places_.begin(), places_.begin() + static_cast<std::ptrdiff_t>(choices),
                                               binding->key.begin());
    };
    if (std::ranges::count_if(entry.bindings, is_alike) < most_in_place) {
        return true;
    }
    const std::span addresses = std::span{places_}.subspan(choices);
    entry.times_moved = std::ranges::equal(entry.moved, addresses) ? entry.times_moved + 1 : 1;
    entry.moved.assign(addresses.begin(), addresses.end());
    if (entry.times_moved < moves_until_in_place) {
        return false;
    }
    const auto oldest = std::find_if(entry.bindings.rbegin(), entry.bindings.rend(), is_alike);
    contexts_.drop(entry, **oldest);
    return true;
}

// Where the call finds its inputs, and which outputs it copies: calls that agree in this share a graph.
Binding& CallPlanner::place(const Call& call, Prepared& entry) {
    places_.clear();
    places_.push_back(memory_->state().parity() + 2 * static_cast<int>(memory_->io().set) +
                      8 * (lanes_->timed ? 1 : 0));
    for (std::size_t o = 0; o < plan_->outputs().size(); ++o) {
        places_.push_back(memory_->to_host().wanted(call, o) ? 1 : 0);
        if (const auto index = memory_->to_host().index(call, o)) {
            places_.back() = 2;
            places_.push_back(*index);
        }
    }
    const std::size_t choices = places_.size();
    std::vector<bool>& moved = memory_->moved();
    moved.assign(call.inputs.size(), false);
    bool may_move = false;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        if (call.inputs[i].source != Source::device || memory_->is_state_input(i)) {
            continue;
        }
        moved[i] = !is_aligned(call.inputs[i].data) && !memory_->is_aliased(i);
        places_.push_back(moved[i] ? 0 : reinterpret_cast<std::intptr_t>(call.inputs[i].data));
        may_move = may_move || (!moved[i] && is_movable(entry, i));
    }
    Binding* found = ContextCache::find(entry, places_);
    const bool in_place = found != nullptr ? found->in_place : may_move && reads_in_place(entry, choices);
    if (may_move && !in_place) {
        std::size_t place = choices;
        for (std::size_t i = 0; i < call.inputs.size(); ++i) {
            if (call.inputs[i].source == Source::device && !memory_->is_state_input(i)) {
                moved[i] = moved[i] || is_movable(entry, i);
                places_[place] = moved[i] ? 0 : places_[place];
                ++place;
            }
        }
        found = ContextCache::find(entry, places_);
    }
    if (found == nullptr) {
        found = &contexts_.add(entry, places_);
        found->in_place = in_place;
    }
    entry.times_moved = in_place ? 0 : entry.times_moved;
    return *found;
}

Prepared& CallPlanner::prepare(const Call& call) {
    check(call);
    if (weights_ != plan_->gate().changes()) {
        weights_ = plan_->gate().changes();
        memory_->count_change(); // graphs may hold weights by value
    }
    memory_->leave_lent(*lanes_);
    stage_shape_tensors(call);
    make_key(call);
    repeats_ = last_ != nullptr && key_ == last_key_;
    if (!repeats_) {     // else the shapes are those of the call before
        last_ = nullptr; // a new entry may evict the last one
        take_shapes(call);
        last_ = contexts_.entry(key_);
        if (last_ == nullptr) {
            Prepared entry; // what is refused takes nobody's place
            work_out(call, entry);
            last_ = &contexts_.keep(key_, std::move(entry));
        }
        last_key_ = key_;
    }
    Prepared& entry = *last_;
    for (std::size_t o = 0; !call.room.empty() && o < entry.output_shapes.size(); ++o) {
        if (!entry.output_data_dependent[o]) {
            memory_->to_host().check_room(call, o, entry.output_shapes[o]);
        }
    }
    contexts_.use(entry);
    binding_ = &place(call, entry);
    if (!binding_->own) {
        contexts_.roamer(entry.profile, lanes_->compute.get()); // may be refused, so before state changes
    }
    if (binding_->bound != memory_->generation()) { // others may have kept the memory that it was worked out with
        memory_->reserve_inputs(call, entry);
        memory_->reserve_outputs(call, entry, entry.profile);
    }
    memory_->reserve_copies(call, entry, *lanes_);
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
    memory_->moved().assign(inputs.size(), false);
    memory_->reserve_inputs(call, entry);
    ContextCache::Roamer& roamer = contexts_.roamer(profile, lanes_->compute.get());
    roamer.set_up = nullptr;
    roamer.shapes = nullptr;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        // State may have no memory yet: no call is refused after it has. An array elsewhere is copied first.
        if (void* address = memory_->bound_address(call, i); address != nullptr && is_aligned(address)) {
            roamer.execution->bind_input(i, address);
        }
    }
    give_shapes(roamer, entry);
    entry.output_shapes.clear();
    entry.output_bytes.clear();
    entry.output_data_dependent.clear();
    for (std::size_t o = 0; o < plan_->outputs().size(); ++o) {
        const std::optional<Shape> shape = roamer.execution->output_shape(o);
        entry.output_shapes.push_back(shape.value_or(Shape{}));
        entry.output_bytes.push_back(shape ? byte_size(plan_->outputs()[o], *shape) : 0);
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
    entry.profile = profile;
}

// Shapes follow from the values of shape tensors, too, wherever those were bound last.
void CallPlanner::give_shapes(ContextCache::Roamer& roamer, const Prepared& entry) {
    if (reads_host_ || roamer.shapes != &entry) {
        roamer.shapes = nullptr;
        roamer.execution->set_shapes(shapes_);
        roamer.shapes = &entry;
    }
}

void CallPlanner::bind(const Call& call, const Prepared& entry, Execution& execution) {
    for (std::size_t i = 0; i < plan_->inputs().size(); ++i) {
        execution.bind_input(i, memory_->bound_address(call, i));
    }
    for (std::size_t o = 0; o < plan_->outputs().size(); ++o) {
        if (entry.output_data_dependent[o]) {
            execution.bind_allocator(o, memory_->io().allocator(o));
        } else {
            execution.bind_output(o, memory_->output_address(call, o));
        }
    }
}

Execution& CallPlanner::set_up(const Call& call, const Prepared& entry) {
    Binding& binding = *binding_;
    const std::uint64_t generation = memory_->generation();
    if (binding.own) {
        if (binding.bound != generation) {
            binding.graph = {}; // one that is under way goes once it is done
            binding.uses = 0;   // captured again once the addresses stay: a capture takes far longer than a call
            bind(call, entry, *binding.own);
            binding.bound = generation;
        }
        return *binding.own;
    }
    ContextCache::Roamer& roamer = contexts_.roamer(entry.profile, lanes_->compute.get());
    if (roamer.set_up != &binding || roamer.bound != generation) {
        roamer.set_up = nullptr;
        bind(call, entry, *roamer.execution);
        give_shapes(roamer, entry);
        roamer.set_up = &binding;
        roamer.bound = generation;
    }
    binding.bound = generation;
    return *roamer.execution;
}

void CallPlanner::forget() noexcept {
    last_ = nullptr;
    binding_ = nullptr;
    contexts_.clear();
    last_key_.clear();
}

} // namespace trtw
