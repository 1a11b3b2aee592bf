// The memory that a slot's calls read and write.
#pragma once

#include "run/context_cache.hpp"
#include "run/device_blocks.hpp"
#include "run/host_outputs.hpp"
#include "run/io_buffers.hpp"
#include "run/lanes.hpp"
#include "run/state.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace trtw {

/// Inputs, outputs and state of one slot: where each lies for a call, and what others still hold of earlier ones.
class CallMemory {
public:
    CallMemory(const Plan& plan, const RunnerOptions& options);

    [[nodiscard]] IoBuffers& io() noexcept { return io_; }
    [[nodiscard]] StateStore& state() noexcept { return state_; }
    [[nodiscard]] const StateStore& state() const noexcept { return state_; }
    [[nodiscard]] const HostOutputs& to_host() const noexcept { return to_host_; }
    [[nodiscard]] bool is_state_input(std::size_t input) const noexcept { return state_.pair_of_input(input) >= 0; }
    [[nodiscard]] bool is_state_output(std::size_t output) const noexcept { return state_.pair_of_output(output) >= 0; }
    /// Whether the call copies the input from host memory to the device.
    [[nodiscard]] bool is_copied(const Call& call, std::size_t input) const noexcept {
        return call.inputs[input].source == Source::host && !is_state_input(input) && !plan_->inputs()[input].on_host;
    }

    /// Whether an output is written where the input lies.
    [[nodiscard]] bool is_aliased(std::size_t input) const noexcept {
        return std::ranges::find(aliased_, std::optional{input}) != aliased_.end();
    }
    /// Whether the contents of a device array are copied to the slot's own buffer, by input: of the call that comes.
    [[nodiscard]] std::vector<bool>& moved() noexcept { return moved_; }

    /// Counts changes of any buffer's address.
    [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }
    void count_change(bool changed = true) noexcept { generation_ += changed ? 1 : 0; }

    [[nodiscard]] void* input_address(const Call& call, std::size_t input) const;
    /// What the engine reads: the input itself, or what is made of it.
    [[nodiscard]] void* bound_address(const Call& call, std::size_t input) const {
        return plan_->inputs()[input].is_linear ? input_address(call, input) : io_.inputs[input].packed.data();
    }
    /// Enqueues what brings arrays into their inputs' formats.
    void pack_inputs(const Call& call, cudaStream_t stream) const;
    [[nodiscard]] void* output_address(const Call& call, std::size_t output);
    /// What a caller who takes the output gets. Null where the memory is none of the slot's.
    [[nodiscard]] std::shared_ptr<DeviceMemory> output_block(const Call& call, std::size_t output);

    /// Leaves what others still hold of earlier calls' outputs to them, and has what they read before they let go of it
    /// waited for.
    void leave_lent(const Lanes& lanes);
    void reserve_inputs(const Call& call, const Prepared& entry);
    void reserve_outputs(const Call& call, const Prepared& entry, int profile);
    /// Takes memory for copies of outputs, where the call hands out such.
    void reserve_copies(const Call& call, const Prepared& entry, const Lanes& lanes);
    /// Enqueues the copies of device arrays that are moved.
    void move_inputs(const Call& call, const Prepared& entry, cudaStream_t stream) const;
    /// Enqueues the copies of outputs that are handed out instead of the slot's own memory.
    void copy_outputs(const Call& call, const std::vector<Shape>& shapes, cudaStream_t stream);
    std::shared_ptr<PinnedMemory> input_block(std::size_t input, std::size_t bytes);
    /// Whether there was such a one: arrays of the caller's may lie in it.
    [[nodiscard]] bool lends_inputs() const noexcept { return lends_inputs_; }

    /// Gives the state inputs their values of this call; `shapes` are those of all inputs. The last thing that may find
    /// no memory, but for outputs whose size depends on the data, and from there on the first that changes state.
    void take_state(const Call& call, const Prepared& entry, const std::vector<Shape>& shapes, Lanes& lanes);
    /// See Slot::reset_state.
    void reset_state(const std::vector<std::pair<std::size_t, Input>>& values, Lanes& lanes);

    std::vector<Output> outputs; ///< of the last call, as they were handed out

private:
    [[nodiscard]] bool hands_out_copy(const Call& call, std::size_t output) const;
    void drop_outputs() noexcept;
    void set_state(std::size_t input, const Input& value, Lanes& lanes);

    const Plan* plan_;
    HostOutputs to_host_;
    std::vector<std::optional<std::size_t>> aliased_; ///< by output: the input whose memory it is written in
    std::vector<bool> moved_;                         ///< by input
    IoBuffers io_;
    DeviceBlocks blocks_;
    std::vector<std::shared_ptr<DeviceMemory>> copies_; ///< by output: of this call
    StateStore state_;
    std::uint64_t generation_ = 1;
    bool lends_inputs_ = false;
};

} // namespace trtw
