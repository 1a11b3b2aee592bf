// Moves a call's inputs to the device and its outputs to the host.
#pragma once

#include "run/call_memory.hpp"
#ifdef TRTW_WITH_KERNELS
#include "trtw/letterbox_gpu.hpp"
#endif

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trtw {

class Transfers {
public:
    Transfers(const Plan& plan, CallMemory& memory) : plan_{&plan}, memory_{&memory} {}

    /// Fills an input's pinned buffer, unless the caller wrote there already.
    void stage(const Call& call, std::size_t input);
    void stage_inputs(const Call& call);
    /// Enqueues the copies of what `stage_inputs` staged.
    void copy_staged(const Call& call, const Prepared& entry, cudaStream_t stream);
    /// Stages and copies, each input piece by piece where that lets both overlap.
    void copy_inputs(const Call& call, cudaStream_t stream);
    /// `shapes` are those of data-dependent outputs.
    void copy_outputs(const Call& call, const Prepared& entry, const std::vector<Shape>& shapes, cudaStream_t stream);
    /// Returns whether more memory than before is held for images.
    bool letterbox(const Call& call, cudaStream_t stream);

    /// What was moved in which way, and the memory for images. The counters for any thread.
    void count(SlotStatus& status) const noexcept;
    void add_to(MemoryUse& use) const noexcept;

private:
    void copy_input(const Call& call, std::size_t input, cudaStream_t stream);

    const Plan* plan_;
    CallMemory* memory_;
#ifdef TRTW_WITH_KERNELS
    LetterboxGpu letterbox_;
#endif
    std::atomic<std::uint64_t> strided_copies_ = 0;
    std::atomic<std::uint64_t> in_place_inputs_ = 0;
    std::atomic<std::uint64_t> page_locked_images_ = 0;
};

} // namespace trtw
