// Detector heads on the GPU, behind an engine.
#pragma once

#include "trtw/head.hpp"
#include "trtw/memory.hpp"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace trtw {

/// Finds boxes in outputs on the device; only what is kept leaves it. One call at a time: what was enqueued before must
/// be done when `enqueue` is called again. Its memory stays where it is, as graphs hold the addresses.
class HeadGpu {
public:
    /// Throws UsageProblem for a spec that makes no sense.
    explicit HeadGpu(HeadSpec spec);

    /// Enqueues what may be captured, but for the first call with so many images. Throws UsageProblem for outputs that
    /// do not fit, OutOfMemory or DeviceFailure.
    void enqueue(std::span<const HeadTensor> outputs, cudaStream_t stream);
    /// What was found by the last call, of so many images, which is done.
    [[nodiscard]] std::vector<FoundBoxes> found(int images) const;

private:
    struct Memory {
        DeviceBuffer device;
        PinnedBuffer host;
        std::int64_t mask_words = 0; ///< of an image, on the host behind all results
    };

    [[nodiscard]] std::uint32_t* masks_of(const Memory& memory, int images) const;

    HeadSpec spec_;
    std::map<int, Memory> memory_; ///< by how many images a call has
};

} // namespace trtw
