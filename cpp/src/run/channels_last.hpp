// Inputs whose format has the channels last: what the engine reads is made of the caller's row-major array.
#pragma once

#include "trtw/tensor.hpp"

#include <cuda_runtime_api.h>

namespace trtw {

/// Enqueues the packing of an array on the device.
void pack_on_device(const TensorInfo& tensor, const Shape& shape, const void* source, void* target,
                    cudaStream_t stream);
/// Packs an array in host memory.
void pack_on_host(const TensorInfo& tensor, const Shape& shape, const void* source, void* target);

} // namespace trtw
