// Letterbox on the GPU: decoded images in host memory become one input tensor on the device.
#pragma once

#include "trtw/detail/cuda_handles.hpp"
#include "trtw/letterbox.hpp"
#include "trtw/memory.hpp"

#include <cstddef>
#include <span>

namespace trtw {

/// Uploads a batch of images of any sizes and letterboxes them into one tensor. Of images that shrink to less than half
/// their height only the sampled rows are uploaded. Images in page-locked memory are not copied on the host: the kernel
/// reads those that shrink where they lie, the others are uploaded from there. Images on the device are read where they
/// lie. Owns its staging memory, which only grows. One batch at a time: the work enqueued before must be done when
/// `enqueue` is called again.
class LetterboxGpu {
public:
    /// `polls`: the caller waits for the device by polling, so that a helper that copies may poll for the caller.
    explicit LetterboxGpu(bool polls = false) : polls_{polls} {}

    /// Enqueues upload and kernel on `stream`; `output` is device memory of images.size() * spec.item_bytes().
    /// Images on the device and in page-locked memory must stay as they are until that work is done, others are copied
    /// before this returns. Returns how many were page-locked. Throws UsageProblem, OutOfMemory or DeviceFailure.
    std::size_t enqueue(std::span<const ImageView> images, const LetterboxSpec& spec, void* output,
                        cudaStream_t stream);

    [[nodiscard]] std::size_t pinned_bytes() const noexcept { return host_.capacity(); }
    [[nodiscard]] std::size_t device_bytes() const noexcept { return device_.capacity(); }

private:
    const bool polls_;
    PinnedBuffer host_;
    DeviceBuffer device_;
};

} // namespace trtw
