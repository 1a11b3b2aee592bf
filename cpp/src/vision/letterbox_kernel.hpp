// The fused letterbox kernel.
#pragma once

#include "vision/staging.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>

namespace trtw {

/// Enqueues the fused kernel: one thread a pixel of the output, the items one after the other in `output`.
void launch_letterbox(const DeviceImage* images, std::size_t count, const LetterboxSpec& spec, void* output,
                      cudaStream_t stream);

} // namespace trtw
