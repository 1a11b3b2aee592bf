#include "trtw/runner.hpp"

#include "device/graph.hpp"
#include "device/scope.hpp"
#include "run/captured_call.hpp"
#include "run/host_outputs.hpp"
#include "run/profile_choice.hpp"
#include "run/slot.hpp"
#include "run/slot_pool.hpp"

#include <algorithm>

namespace trtw {

namespace {

RunnerOptions checked(RunnerOptions options, const Plan& plan) {
    if (options.slots < 1 || options.slots > 64) {
        throw UsageProblem("A runner has 1 to 64 slots; got " + std::to_string(options.slots) + ".");
    }
    check_profile(options.profile, plan.num_profiles());
    if (!options.state.empty() && options.slots != 1) {
        throw UsageProblem("State belongs to one sequence of calls, so a runner with state has one slot. Make a "
                           "runner for each sequence; they share the engine's weights.");
    }
    return options;
}

std::size_t state_input(const Runner& runner, const std::string& name) {
    const auto input = index_of(runner.plan().inputs(), name);
    if (!input || !feeds(runner.options().state, name)) {
        throw UsageProblem("The other runner has no state '" + name + "'.");
    }
    return *input;
}

} // namespace

Runner::Runner(std::shared_ptr<const Plan> plan, RunnerOptions options, std::function<void()> while_waiting,
               const MakeSlot& make_slot)
    : plan_{std::move(plan)}, options_{checked(std::move(options), *plan_)}, while_waiting_{std::move(while_waiting)},
      pool_{std::make_unique<SlotPool>(options_.slots, std::chrono::seconds{10}, while_waiting_)},
      to_host_{default_outputs(*plan_, options_)} {
    check_options();
    const DeviceScope scope{plan_->device()};
    for (int slot = 0; slot < options_.slots; ++slot) {
        slots_.push_back(make_slot ? make_slot(slot) : std::make_unique<Slot>(plan_, options_));
    }
    if (options_.slots > 1) {
        intake_ = std::make_unique<Stream>(StreamUse::copy);
        std::ranges::for_each(slots_, [&](const auto& slot) { slot->come_after(intake_->get()); });
    }
}

// Contexts, streams and memory go on the device that they were made on.
Runner::~Runner() {
    const DeviceScope scope{plan_->device(), std::nothrow};
    slots_.clear();
    captured_.clear();
}

void Runner::check_options() const {
    check_tensors(plan_->tensors());
    for (const std::string& name : options_.outputs.value_or(std::vector<std::string>{})) {
        if (!index_of(plan_->outputs(), name)) {
            throw UsageProblem("The engine has no output '" + name + "'.");
        }
    }
}

Call Runner::call(const Named& inputs) const {
    Call made;
    for (const TensorInfo& tensor : plan_->inputs()) {
        const auto given = std::ranges::find(inputs, tensor.name, &Named::value_type::first);
        if (given == inputs.end() && !feeds(options_.state, tensor.name)) {
            throw UsageProblem("Input '" + tensor.name + "' is missing.");
        }
        made.inputs.push_back(given == inputs.end() ? Input{.source = Source::state} : given->second);
    }
    for (const auto& [name, input] : inputs) {
        if (!index_of(plan_->inputs(), name)) {
            throw UsageProblem("The engine has no input '" + name + "'.");
        }
    }
    return made;
}

const Output& Runner::Finished::output(std::string_view name) const {
    const auto found = index_of(runner_->plan().outputs(), name);
    if (!found) {
        throw UsageProblem("The engine has no output '" + std::string{name} + "'.");
    }
    return (*outputs_)[*found];
}

Runner::Finished::~Finished() {
    if (runner_ != nullptr) {
        runner_->pool_->release(slot_);
    }
}

Runner::Finished Runner::finish(int slot, bool may_be_interrupted) {
    constexpr std::chrono::milliseconds beat{100};
    Finished finished{*this, slot}; // releases the slot where waiting throws
    Slot& work = *slots_[static_cast<std::size_t>(slot)];
    // To poll takes longer than to wait for the event at once, so short calls are not interrupted.
    while (while_waiting_ && may_be_interrupted && was_long_ && !work.wait_until(Clock::now() + beat)) {
        try {
            while_waiting_();
        } catch (...) {
            work.leave();
            throw;
        }
    }
    finished.outputs_ = &work.wait();
    finished.timing_ = work.timing();
    was_long_ = finished.timing_.end_to_end_ms > static_cast<float>(beat.count());
    const std::scoped_lock lock{timing_mutex_};
    last_timing_ = finished.timing_;
    return finished;
}

int Runner::launch(const Call& call, std::optional<cudaStream_t> stream) {
    const int slot = pool_->lease();
    try {
        Slot& work = *slots_[static_cast<std::size_t>(slot)];
        work.launch(call, stream.value_or(work.stream()));
    } catch (...) {
        pool_->release(slot);
        throw;
    }
    return slot;
}

Runner::Finished Runner::run(const Call& call, std::optional<cudaStream_t> stream) {
    const DeviceScope scope{plan_->device()};
    if (stream && is_capturing(*stream)) {
        throw UsageProblem("The stream captures a graph, so nothing on it can be waited for: leave all outputs on the "
                           "device.");
    }
    return finish(launch(call, stream));
}

Enqueued Runner::enqueue(const Call& call, cudaStream_t stream) {
    const DeviceScope scope{plan_->device()};
    check_call(plan_->inputs(), plan_->outputs().size(), call);
    refuse_host_outputs(call);
    if (is_capturing(stream)) {
        return capture(call, stream);
    }
    const int slot = pool_->lease();
    const Finished lease{*this, slot};
    return slots_[static_cast<std::size_t>(slot)]->enqueue(call, stream);
}

void Runner::refuse_host_outputs(const Call& call) const {
    const std::vector<TensorInfo>& outputs = plan_->outputs();
    for (std::size_t o = 0; o < outputs.size(); ++o) {
        if (outputs[o].on_host || (call.to_host ? (*call.to_host)[o] : to_host_[o])) {
            throw UsageProblem("Output '" + outputs[o].name +
                               "' goes to the host, for which somebody has to wait: leave it on the device, or run the "
                               "call.");
        }
    }
}

Enqueued Runner::capture(const Call& call, cudaStream_t stream) {
    if (!options_.state.empty()) {
        throw UsageProblem("A call of a runner with state cannot be captured: its state lies elsewhere from call to "
                           "call. Capture one whose inputs and outputs are the state.");
    }
    const CallGate::Call gate{plan_->gate()};
    auto captured = std::make_unique<CapturedCall>(plan_, call, options_.profile, stream);
    const std::scoped_lock lock{captured_mutex_};
    std::erase_if(captured_, [](const auto& one) { return one->is_over(); });
    captured_.push_back(std::move(captured));
    return {captured_.back()->outputs(), nullptr};
}

cudaStream_t Runner::intake() const {
    return intake_ ? intake_->get() : slots_.front()->stream();
}

Runner::Ticket Runner::submit(const Call& call) {
    const DeviceScope scope{plan_->device()};
    const int slot = launch(call, {});
    pool_->park(slot);
    return {*this, slot};
}

bool Runner::Ticket::done() const {
    const Runner* runner = runner_.load();
    return runner == nullptr || runner->slots_[static_cast<std::size_t>(slot_)]->is_done();
}

bool Runner::Ticket::wait_until(Clock::time_point deadline) const {
    const Runner* runner = runner_.load();
    return runner == nullptr || runner->slots_[static_cast<std::size_t>(slot_)]->wait_until(deadline);
}

void Runner::Ticket::check_room(const std::vector<std::optional<Shape>>& room) const {
    if (const Runner* runner = runner_.load()) {
        const std::vector<Output>& outputs = runner->slots_[static_cast<std::size_t>(slot_)]->outputs();
        for (std::size_t o = 0; o < std::min(room.size(), outputs.size()); ++o) {
            trtw::check_room(*outputs[o].tensor, room[o], outputs[o].shape);
        }
    }
}

Runner::Finished Runner::Ticket::take(bool may_be_interrupted) {
    Runner* runner = runner_.load();
    std::optional<DeviceScope> scope;
    if (runner != nullptr) {
        scope.emplace(runner->plan_->device()); // before the ticket gives its slot away: it may fail
    }
    if (runner == nullptr || runner_.exchange(nullptr) == nullptr) {
        throw UsageProblem("The ticket's result was already taken.");
    }
    runner->pool_->unpark(slot_);
    return runner->finish(slot_, may_be_interrupted);
}

void Runner::Ticket::drop() noexcept {
    if (runner_.load() != nullptr) {
        try {
            static_cast<void>(take(false));
        } catch (const Error&) { // NOLINT(bugprone-empty-catch): nobody asked for the result
        }
    }
}

template <class Action>
void Runner::with_idle_slot(int slot, const char* what, Action&& action) {
    const DeviceScope scope{plan_->device()};
    if (slot < 0 || slot >= options_.slots) {
        throw UsageProblem("Slot " + std::to_string(slot) + " does not exist; the runner has " +
                           std::to_string(options_.slots) + ", counted from 0.");
    }
    if (!pool_->try_lease(slot)) {
        throw UsageProblem("Slot " + std::to_string(slot) + " has a call in flight; wait for it before " + what + ".");
    }
    try {
        Slot& idle = *slots_[static_cast<std::size_t>(slot)];
        idle.settle();
        action(idle);
    } catch (...) {
        pool_->release(slot);
        throw;
    }
    pool_->release(slot);
}

void Runner::reset_state(const std::vector<std::pair<std::size_t, Input>>& values) {
    with_idle_slot(0, "resetting its state", [&](Slot& slot) { slot.reset_state(values); });
}

void Runner::take_state(Runner& other) {
    if (&other == this) {
        return;
    }
    std::vector<std::size_t> to;
    std::vector<std::size_t> from;
    for (const auto& [output, input] : options_.state) {
        to.push_back(state_input(*this, input));
        from.push_back(state_input(other, input));
        const TensorInfo& ours = plan_->inputs()[to.back()];
        const TensorInfo& theirs = other.plan_->inputs()[from.back()];
        if (ours.dtype != theirs.dtype) {
            throw UsageProblem("State '" + input + "' is " + ours.dtype + " here and " + theirs.dtype +
                               " in the other runner.");
        }
    }
    // Until they are copied, no call of `other` may write where its values are.
    other.with_idle_slot(0, "its state is taken", [&](const Slot& theirs) {
        std::vector<std::pair<std::size_t, Input>> copies;
        for (std::size_t i = 0; i < from.size(); ++i) {
            const StateValue value = theirs.state_value(from[i]);
            if (value.memory) {
                Input& copy = copies.emplace_back(to[i], Input{}).second;
                copy.source = Source::device;
                copy.data = value.memory->data();
                copy.shape = value.shape;
            }
        }
        reset_state(copies);
    });
}

std::shared_ptr<PinnedMemory> Runner::input_block(int slot, std::size_t input, std::size_t bytes) {
    if (input >= plan_->inputs().size()) {
        throw UsageProblem("The engine has no input " + std::to_string(input) + ", counted from 0.");
    }
    std::shared_ptr<PinnedMemory> block;
    with_idle_slot(slot, "taking its input buffer", [&](Slot& work) { block = work.input_block(input, bytes); });
    return block;
}

Timing Runner::last_timing() const {
    const std::scoped_lock lock{timing_mutex_};
    return last_timing_;
}

SlotStatus Runner::status() const {
    SlotStatus sum;
    for (const auto& slot : slots_) {
        const SlotStatus one = slot->status();
        sum.graphs += one.graphs;
        if (sum.graph_fallback.empty()) {
            sum.graph_fallback = one.graph_fallback;
        }
        sum.strided_copies += one.strided_copies;
        sum.in_place_inputs += one.in_place_inputs;
        sum.page_locked_images += one.page_locked_images;
        sum.memory.device_scratch += one.memory.device_scratch;
        sum.memory.device_inputs += one.memory.device_inputs;
        sum.memory.device_outputs += one.memory.device_outputs;
        sum.memory.device_state += one.memory.device_state;
        sum.memory.device_images += one.memory.device_images;
        sum.memory.pinned_inputs += one.memory.pinned_inputs;
        sum.memory.pinned_outputs += one.memory.pinned_outputs;
        sum.memory.pinned_images += one.memory.pinned_images;
    }
    const std::scoped_lock lock{captured_mutex_};
    for (const auto& captured : captured_) {
        captured->add_to(sum.memory);
    }
    return sum;
}

std::string Runner::graph_status() const {
    return graph_text(status());
}

} // namespace trtw
