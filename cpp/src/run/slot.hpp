// One call in flight: a context, streams, events and buffers of its own.
#pragma once

#include "run/call_planner.hpp"
#include "run/clock.hpp"

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace trtw {

/// Work of the caller's in the compute stream right before and after the engine's, and in the graph with it. It must be
/// the same for calls of the same shapes and addresses.
struct Surroundings {
    std::function<void(cudaStream_t)> before;
    /// Is given the address of an output by its index, and the shapes of all but those that depend on the data. Returns
    /// whether graphs that hold what it enqueued before are over.
    std::function<bool(const std::function<void*(std::size_t)>& output, const std::vector<Shape>& shapes, cudaStream_t)>
        after;
};

/// Executes what its planner works out. Used by one thread at a time, alternating launch and wait; the runner sees to
/// that.
class Slot {
public:
    Slot(std::shared_ptr<const Plan> plan, const RunnerOptions& options, Surroundings surroundings = {});
    ~Slot();
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

    /// Checks a call and makes room for it: what `launch` may refuse is refused here, the rest of which is the
    /// device's. The reference is valid until the next call.
    const Prepared& prepare(const Call& call);
    /// Checks the call, moves its inputs and starts it on `stream`; never waits for the device, but for what `enqueue`
    /// left of an earlier call and this one has to write to. After an exception the slot is idle and usable; state is
    /// as it was before where the call was refused (UsageProblem, ComponentMissing) or found no memory. A call is
    /// captured at its second use, while the device is at it.
    void launch(const Call& call, cudaStream_t stream) { launch(call, stream, call.timing.value_or(options_.timing)); }
    /// Starts a call without outputs on the host, for which nobody waits: what comes later on `stream` comes after it.
    Enqueued enqueue(const Call& call, cudaStream_t stream);
    /// Waits for what `enqueue` left.
    void settle();
    /// Leaves the launched call under way.
    void leave() noexcept;
    /// Waits for the launched call. Throws DeviceFailure where it failed on the device.
    const std::vector<Output>& wait();
    /// Whether `wait` would return at once. For any thread.
    [[nodiscard]] bool is_done() const noexcept { return lanes_.done->is_done(); }
    /// Waits at most until then; returns is_done(). For any thread.
    [[nodiscard]] bool wait_until(Clock::time_point deadline) const noexcept {
        return lanes_.done->wait_until(deadline);
    }

    /// Of the call that was launched last.
    [[nodiscard]] const std::vector<Output>& outputs() const noexcept { return memory_.outputs; }
    [[nodiscard]] const Timing& timing() const noexcept { return timing_; }
    [[nodiscard]] SlotStatus status() const;
    /// The pinned block of an input with room for `bytes`; writing there before the call saves a copy.
    std::shared_ptr<PinnedMemory> input_block(std::size_t input, std::size_t bytes) {
        return memory_.input_block(input, bytes);
    }
    /// Forgets all state, then gives state inputs, by their index, values for the next call; they are copied. State is
    /// as it was before where a value is refused or finds no memory.
    void reset_state(const std::vector<std::pair<std::size_t, Input>>& values) { memory_.reset_state(values, lanes_); }
    /// Has calls on the slot's own stream that read the device come after this one.
    void come_after(cudaStream_t intake) noexcept { intake_ = intake; }
    /// The stream of the engine, which never waits for another one's work but a producer's.
    [[nodiscard]] cudaStream_t stream() const noexcept { return lanes_.compute.get(); }
    [[nodiscard]] StateValue state_value(std::size_t input) const { return memory_.state().value(input); }

private:
    void launch(const Call& call, cudaStream_t stream, bool timed);
    Prepared& plan(const Call& call);
    void start(const Call& call, cudaStream_t stream);
    void follow(const Call& call);
    Execution* set_up(const Call& call, Prepared& entry);
    void leave_default_stream();
    void wait_for_producers(const Call& call);
    void fused_body(const Call& call, const Prepared& entry, Execution& execution, cudaStream_t stream, bool capturing);
    void run_fused(const Call& call, const Prepared& entry, Execution* execution);
    void run_split(const Call& call, const Prepared& entry, Execution* execution);
    void letterbox(const Call& call, cudaStream_t stream);
    void run_engine(const Call& call, const Prepared& entry, Execution* execution);
    void compute(const Call& call, const Prepared& entry, Execution& execution, cudaStream_t stream);
    void refuse_full_memory(const Prepared& entry);
    void capture(const Call& call, const Prepared& entry, Binding& binding);
    void read_data_dependent_shapes(const Call& call, const Prepared& entry);
    [[nodiscard]] const std::vector<Shape>& shapes_of(const Prepared& entry) const noexcept;
    void collect_outputs(const Call& call, const Prepared& entry);
    void publish(const std::string& fallback = {});
    void abandon() noexcept;

    std::shared_ptr<const Plan> plan_;
    RunnerOptions options_;
    Surroundings surroundings_;
    Lanes lanes_;
    CallMemory memory_;
    Transfers transfers_;
    CallPlanner planner_; ///< after what its contexts are bound to

    std::vector<Shape> output_shapes_; ///< of a call some of whose shapes depend on the data
    bool outputs_told_ = false;        ///< `memory_.outputs` are of the same kind of call, but for their device memory
    std::uint64_t told_generation_ = 0;
    std::optional<cudaStream_t> intake_;
    bool has_images_ = false;
    bool fused_run_ = false;
    bool in_flight_ = false;
    std::optional<cudaStream_t> left_on_; ///< the stream of a call that may be under way still, for which nobody waits
    std::optional<CallGate::Call> gate_;  ///< while a call is being started or in flight
    Clock::time_point begin_;
    Timing timing_;

    std::uint64_t published_generation_ = 0;
    bool memory_grew_ = false; ///< of images or data-dependent outputs, since it was last told
    mutable std::mutex status_mutex_;
    SlotStatus status_;
};

} // namespace trtw
