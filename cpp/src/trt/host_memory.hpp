// What TensorRT hands out as bytes.
#pragma once

#include "trtw/shared_bytes.hpp"

#include <NvInferRuntime.h>

#include <memory>

namespace trtw {

/// Takes the memory over; no bytes for null.
inline SharedBytes shared_bytes(nvinfer1::IHostMemory* memory) {
    if (memory == nullptr) {
        return {};
    }
    std::shared_ptr<const nvinfer1::IHostMemory> owner{memory};
    const std::span bytes{static_cast<const std::byte*>(owner->data()), owner->size()};
    return {std::move(owner), bytes};
}

} // namespace trtw
