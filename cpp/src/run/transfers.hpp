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

/// Whether the copy of so many bytes is a command of its own where others are part of a graph: it can then start before
/// the graph, in pieces, and from any address. For less, one command more costs more than the host's own copy.
constexpr bool is_copied_apart(std::size_t bytes) noexcept {
    return bytes >= std::size_t{32} << 10U;
}

class Transfers {
public:
    /// `polls`: whether the caller of a runner waits by polling.
    Transfers(const Plan& plan, CallMemory& memory, bool polls) : plan_{&plan}, memory_{&memory}, polls_{polls} {}

    /// The call, or one with copies of those of its host arrays that lie in input buffers, but for an input's in its
    /// own. Valid until the next one.
    [[nodiscard]] const Call& untangled(const Call& call);
    /// Fills an input's pinned buffer, unless the caller wrote there already.
    void stage(const Call& call, std::size_t input);
    /// Stages the inputs that are not copied apart.
    void stage_inputs(const Call& call, const Prepared& entry);
    /// Enqueues the copies of what `stage_inputs` staged.
    void copy_staged(const Call& call, const Prepared& entry, cudaStream_t stream);
    /// Copies the inputs that are copied apart; of a call that is not fused, all.
    void copy_inputs(const Call& call, const Prepared& entry, cudaStream_t stream);
    /// Outputs that are copied apart, or the others, or of a call that is not fused all.
    enum class Outputs : std::uint8_t { all, apart, others };
    /// `shapes` are those of data-dependent outputs.
    void copy_outputs(const Call& call, const Prepared& entry, const std::vector<Shape>& shapes, Outputs which,
                      cudaStream_t stream);
    /// Whether the call's output goes to memory of the caller's.
    [[nodiscard]] bool writes_into(const Call& call, std::size_t output, std::size_t bytes) const;
    /// Returns whether more memory than before is held for images.
    bool letterbox(const Call& call, cudaStream_t stream);

    /// What was moved in which way, and the memory for images. The counters for any thread.
    void count(SlotStatus& status) const noexcept;
    void add_to(MemoryUse& use) const noexcept;

private:
    void copy_input(const Call& call, std::size_t input, std::size_t bytes, cudaStream_t stream);
    void copy_rearranged(const Input& source, std::size_t element_bytes, std::size_t bytes, InputBuffers& buffers,
                         cudaStream_t stream);

    const Plan* plan_;
    CallMemory* memory_;
    const bool polls_;
    Call untangled_;
    std::vector<std::vector<std::byte>> apart_; ///< by input
#ifdef TRTW_WITH_KERNELS
    LetterboxGpu letterbox_{polls_};
#endif
    std::atomic<std::uint64_t> strided_copies_ = 0;
    std::atomic<std::uint64_t> in_place_inputs_ = 0;
    std::atomic<std::uint64_t> page_locked_images_ = 0;
};

} // namespace trtw
