// One call in flight: a context, streams, events and buffers of its own.
#pragma once

#include "run/context_cache.hpp"
#include "run/io_buffers.hpp"
#include "run/state.hpp"
#include "trtw/call.hpp"
#include "trtw/detail/stream.hpp"
#ifdef TRTW_WITH_KERNELS
#include "trtw/letterbox_gpu.hpp"
#endif

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace trtw::engine {

/// Used by one thread at a time, alternating launch and wait; the runner sees to that.
class Slot {
public:
    using Clock = std::chrono::steady_clock;

    Slot(std::shared_ptr<const Plan> plan, const RunnerOptions& options);
    ~Slot();
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

    /// Checks the call, moves its inputs and starts it. After an exception the slot is idle and usable; state is as it
    /// was before where the call was refused (UsageProblem, ComponentMissing) or found no memory.
    void launch(const Call& call);
    /// Waits for the launched call. Throws DeviceFailure where it failed on the device.
    const std::vector<Output>& wait();
    /// Whether `wait` would return at once. For any thread.
    [[nodiscard]] bool is_done() const noexcept { return done_.is_done(); }
    /// Waits at most until then; returns is_done(). For any thread.
    [[nodiscard]] bool wait_until(Clock::time_point deadline) const noexcept { return done_.wait_until(deadline); }

    [[nodiscard]] const Timing& timing() const noexcept { return timing_; }
    [[nodiscard]] SlotStatus status() const;
    /// The pinned block of an input with room for `bytes`; writing there before the call saves a copy.
    std::shared_ptr<device::PinnedMemory> input_block(std::size_t input, std::size_t bytes);
    /// Forgets all state, then gives state inputs, by their index, values for the next call; they are copied. State is
    /// as it was before where a value is refused or finds no memory.
    void reset_state(const std::vector<std::pair<std::size_t, Input>>& values);
    [[nodiscard]] StateValue state_value(std::size_t input) const { return state_.value(input); }
    [[nodiscard]] cudaStream_t compute_stream() const noexcept { return compute_.get(); }

private:
    // Working out what a call needs (slot_prepare.cpp).
    void check(const Call& call) const;
    void drop_outputs() noexcept;
    void leave_lent_memory();
    void take_shapes(const Call& call);
    void set_state(std::size_t input, const Input& value);
    void take_state(const Call& call);
    void stage_shape_tensors(const Call& call);
    void make_key(const Call& call);
    [[nodiscard]] bool wants_host(const Call& call, std::size_t output) const;
    [[nodiscard]] std::optional<std::int64_t> host_index(const Call& call, std::size_t output) const;
    [[nodiscard]] std::size_t host_bytes(const Call& call, std::size_t output, const Shape& shape) const;
    [[nodiscard]] void* input_address(const Call& call, std::size_t input) const;
    [[nodiscard]] void* output_address(const Call& call, std::size_t output);
    [[nodiscard]] std::shared_ptr<device::DeviceMemory> output_block(const Call& call, std::size_t output);
    Prepared& prepare(const Call& call);
    void work_out(const Call& call, Prepared& entry);
    void reserve_inputs(const Call& call, const Prepared& entry);
    void reserve_outputs(const Call& call, const Prepared& entry, int profile);
    void bind(const Call& call, const Prepared& entry, Execution& execution);
    Execution& set_up(const Call& call, Prepared& entry);

    // Running it (slot.cpp).
    void stage(const Call& call, std::size_t input);
    void copy_input(const Call& call, std::size_t input, cudaStream_t stream);
    void copy_outputs(const Call& call, const Prepared& entry, cudaStream_t stream);
    void letterbox(const Call& call, cudaStream_t stream);
    void wait_for_producers(const Call& call);
    void mark(const device::Event& event, cudaStream_t stream, bool capturing) const;
    void fused_body(const Call& call, const Prepared& entry, Execution* execution, bool capturing);
    void run_fused(const Call& call, Prepared& entry, Execution* execution);
    void run_split(const Call& call, Prepared& entry, Execution* execution);
    void enqueue(Prepared& entry, Execution* execution);
    void refuse_full_memory(const Prepared& entry) const;
    void capture(const Call& call, Prepared& entry);
    void read_data_dependent_shapes(const Call& call, const Prepared& entry);
    void collect_outputs(const Call& call, const Prepared& entry);
    void publish(const std::string& fallback = {});
    void abandon() noexcept;

    std::shared_ptr<const Plan> plan_;
    RunnerOptions options_;
    std::vector<bool> default_to_host_;
    std::vector<int> aliased_; ///< by output: the input whose memory it is written in; -1: it has its own

    device::Stream input_{device::StreamUse::copy};
    device::Stream compute_;
    device::Stream output_{device::StreamUse::copy};
    device::Event h2d_begin_, h2d_end_, compute_begin_, compute_end_, d2h_begin_, d2h_end_;
    device::Event done_;
    device::Event produced_;

    device::DeviceBuffer scratch_;
    IoBuffers io_;
    StateStore state_;
#ifdef TRTW_WITH_KERNELS
    vision::LetterboxGpu letterbox_;
#endif
    ContextCache contexts_; // before the buffers it is bound to

    CallKey key_;
    CallKey last_key_;
    Prepared* last_ = nullptr;
    std::uint64_t generation_ = 1; ///< counts changes of any buffer's address
    std::uint64_t published_generation_ = 0;
    bool memory_grew_ = false;  ///< of images or data-dependent outputs, since it was last told
    std::vector<Shape> shapes_; ///< of this call's inputs, state included
    std::vector<Shape> values_; ///< of this call's shape tensors
    std::vector<Shape> output_shapes_;
    std::vector<Output> outputs_;
    bool has_images_ = false;
    bool fused_run_ = false;
    bool in_flight_ = false;
    std::optional<CallGate::Call> gate_; ///< while a call is being started or in flight
    std::uint64_t weights_ = 0;          ///< changes of the weights that the graphs know of
    Clock::time_point begin_;
    Timing timing_;

    mutable std::mutex status_mutex_;
    SlotStatus status_;
    std::atomic<std::uint64_t> strided_copies_ = 0;
    std::atomic<std::uint64_t> in_place_inputs_ = 0;
    std::atomic<std::uint64_t> page_locked_images_ = 0;
};

} // namespace trtw::engine
