// Runs an engine for any number of threads, with a bounded number of calls in flight.
#pragma once

#include "trtw/call.hpp"
#include "trtw/plan.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trtw {

class CapturedCall;
class Slot;
class SlotPool;
class Stream;

/// Thread-safe.
class Runner {
public:
    using MakeSlot = std::function<std::unique_ptr<Slot>(int slot)>;

    /// `while_waiting` is called ten times a second by a thread that waits for a slot, or for a call after one of more
    /// than 0.1 s. What it throws ends the wait; a call that is under way then ends by itself, and reads its arrays.
    /// `make_slot` makes slots that do more than execute the engine.
    /// Throws UsageProblem for options that do not fit the engine, OutOfMemory or DeviceFailure.
    Runner(std::shared_ptr<const Plan> plan, RunnerOptions options, std::function<void()> while_waiting = {},
           const MakeSlot& make_slot = {});
    ~Runner();
    Runner(const Runner&) = delete;
    Runner& operator=(const Runner&) = delete;

    /// A finished call. While it lives, no other call touches its slot's memory.
    class Finished {
    public:
        Finished(Runner& runner, int slot) : runner_{&runner}, slot_{slot} {}
        ~Finished();
        Finished(Finished&& other) noexcept
            : runner_{std::exchange(other.runner_, nullptr)}, slot_{other.slot_}, outputs_{other.outputs_},
              timing_{other.timing_} {}
        Finished(const Finished&) = delete;
        Finished& operator=(const Finished&) = delete;
        Finished& operator=(Finished&&) = delete;

        [[nodiscard]] const std::vector<Output>& outputs() const noexcept { return *outputs_; }
        /// Throws UsageProblem where there is no such output.
        [[nodiscard]] const Output& output(std::string_view name) const;
        template <class T>
        [[nodiscard]] std::span<const T> values(std::string_view name) const {
            return output(name).values<T>();
        }
        [[nodiscard]] const Timing& timing() const noexcept { return timing_; }
        [[nodiscard]] int slot() const noexcept { return slot_; }

    private:
        friend class Runner;
        Runner* runner_;
        int slot_;
        const std::vector<Output>* outputs_ = nullptr;
        Timing timing_;
    };

    /// A call in flight, and its slot. One that is dropped waits for the device and frees the slot. Thread-safe. The
    /// runner has to outlive it.
    class Ticket {
    public:
        Ticket(Runner& runner, int slot) : runner_{&runner}, slot_{slot} {}
        ~Ticket() { drop(); }
        Ticket(Ticket&& other) noexcept : runner_{other.runner_.exchange(nullptr)}, slot_{other.slot_} {}
        Ticket(const Ticket&) = delete;
        Ticket& operator=(const Ticket&) = delete;
        Ticket& operator=(Ticket&&) = delete;

        /// Whether the device is done with the call, well or not; never waits.
        [[nodiscard]] bool done() const;
        /// Waits for that, at most until then; returns done(). The call stays this ticket's either way.
        [[nodiscard]] bool wait_until(std::chrono::steady_clock::time_point deadline) const;
        /// As Call::room, for whoever will take the result. Throws UsageProblem.
        void check_room(const std::vector<std::optional<Shape>>& room) const;
        /// Waits for the call and hands it over. Throws UsageProblem where that was done before, DeviceFailure where it
        /// failed on the device.
        Finished result() { return take(true); }
        /// Waits for the call and frees its slot, whoever else holds the ticket.
        void drop() noexcept;

    private:
        Finished take(bool may_be_interrupted);
        std::atomic<Runner*> runner_;
        int slot_;
    };

    /// Inputs by their names, of which those that state feeds may lack: `run({{"x", view(values, {1, 3})}})`.
    using Named = std::vector<std::pair<std::string, Input>>;
    /// Throws UsageProblem for a name that is unknown or missing.
    [[nodiscard]] Call call(const Named& inputs) const;
    Finished run(const Named& inputs, std::optional<cudaStream_t> stream = {}) { return run(call(inputs), stream); }
    [[nodiscard]] Ticket submit(const Named& inputs) { return submit(call(inputs)); }

    /// Throws UsageProblem for a call that does not fit the engine, OutOfMemory or DeviceFailure; the runner stays
    /// usable. `stream`: a stream of the caller's to run on, in order with what else is there; else one of the
    /// runner's.
    Finished run(const Call& call, std::optional<cudaStream_t> stream = {});
    /// Puts a call whose inputs and outputs stay on the device on a stream of the caller's, and does not wait for the
    /// device. The inputs must stay as they are until the stream has come past the call. Into a graph that the stream
    /// captures goes a call with a context and outputs of its own, which go after the graph, at the runner's next
    /// capture, and with the runner: so long may the graph live. Throws as `run`; UsageProblem also for outputs on the
    /// host, and in a capture for state and host arrays.
    Enqueued enqueue(const Call& call, cudaStream_t stream);
    /// The stream that calls come after which read the device and are given neither a stream nor their inputs'
    /// producers, for libraries that order their work before a stream.
    [[nodiscard]] cudaStream_t intake() const;
    /// Starts a call.
    [[nodiscard]] Ticket submit(const Call& call);

    /// Forgets all state, then copies values that the next call reads, by the index of their state input. With one
    /// slot only, as all state is.
    void reset_state(const std::vector<std::pair<std::size_t, Input>>& values = {});
    /// Copies what the next call of `other` reads, on the device; what `other` has no value of starts from zeros.
    /// Throws UsageProblem where the two do not keep the same state, or a call is in flight.
    void take_state(Runner& other);
    std::shared_ptr<PinnedMemory> input_block(int slot, std::size_t input, std::size_t bytes);

    [[nodiscard]] const Plan& plan() const noexcept { return *plan_; }
    [[nodiscard]] const RunnerOptions& options() const noexcept { return options_; }
    /// Timing of the call that finished last, of any thread.
    [[nodiscard]] Timing last_timing() const;
    /// Of all slots together.
    [[nodiscard]] SlotStatus status() const;
    /// One line: "on: 2 graphs captured", "not yet: …", "off: …".
    [[nodiscard]] std::string graph_status() const;

private:
    void check_options() const;
    int launch(const Call& call, std::optional<cudaStream_t> stream);
    void refuse_host_outputs(const Call& call) const;
    Enqueued capture(const Call& call, cudaStream_t stream);
    Finished finish(int slot, bool may_be_interrupted = true);
    template <class Action>
    void with_idle_slot(int slot, const char* what, Action&& action);

    std::shared_ptr<const Plan> plan_;
    RunnerOptions options_;
    std::vector<std::unique_ptr<Slot>> slots_;
    std::function<void()> while_waiting_;
    std::atomic<bool> was_long_ = true; ///< the last call, as far as is known
    std::unique_ptr<SlotPool> pool_;
    std::vector<bool> to_host_;         ///< by output: where a call does not say
    std::unique_ptr<Stream> intake_;    ///< of several slots
    mutable std::mutex captured_mutex_; ///< of what is in graphs of callers'
    std::vector<std::unique_ptr<CapturedCall>> captured_;
    mutable std::mutex timing_mutex_;
    Timing last_timing_;
};

} // namespace trtw
