// Detector heads on the GPU, behind an engine.
#pragma once

#include "trtw/head.hpp"
#include "trtw/memory.hpp"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

namespace trtw {

/// Finds boxes in outputs on the device; only what is kept leaves it. One call at a time: what was enqueued before must
/// be done when `enqueue` is called again. Its memory is that of the largest call.
class HeadGpu {
public:
    /// Throws UsageProblem for a spec that makes no sense.
    explicit HeadGpu(HeadSpec spec);

    /// Enqueues what may be captured, unless it returns true: the memory has moved, and graphs that hold its address
    /// are over. Throws UsageProblem for outputs that do not fit, OutOfMemory or DeviceFailure.
    bool enqueue(std::span<const HeadTensor> outputs, cudaStream_t stream);
    /// What was found by the last call, of so many images, which is done.
    [[nodiscard]] std::vector<FoundBoxes> found(int images) const;

private:
    [[nodiscard]] std::uint32_t* masks() const;

    HeadSpec spec_;
    DeviceBuffer device_;
    PinnedBuffer host_;           ///< results of all images, behind them masks
    std::size_t most_images_ = 0; ///< of a call
    std::int64_t mask_words_ = 0; ///< of an image
};

} // namespace trtw
