#include "trtw/memory.hpp"

#include "device/check.hpp"

#include <algorithm>
#include <cstddef>

namespace trtw {

template <Place place>
Memory<place>::Memory(std::size_t bytes) : bytes_{std::max<std::size_t>(bytes, 1)} {
    if constexpr (place == Place::device) {
        TRTW_CUDA(cudaMalloc(&pointer_, bytes_));
    } else {
        // Portable: pinned for every context, whichever device a thread has selected.
        TRTW_CUDA(cudaHostAlloc(&pointer_, bytes_, cudaHostAllocPortable));
    }
}

template <Place place>
Memory<place>::~Memory() {
    if (pointer_ == nullptr) {
        return;
    }
    // At interpreter exit the driver may be gone already; there is nobody left to tell.
    if constexpr (place == Place::device) {
        static_cast<void>(cudaFree(pointer_));
    } else {
        static_cast<void>(cudaFreeHost(pointer_));
    }
}

namespace {

const std::byte* mapped_byte(const std::byte* host) noexcept {
    cudaPointerAttributes found{};
    if (cudaPointerGetAttributes(&found, host) != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        return nullptr;
    }
    return found.type == cudaMemoryTypeHost ? static_cast<const std::byte*>(found.devicePointer) : nullptr;
}

} // namespace

const void* mapped(const void* host, std::size_t bytes) noexcept {
    const auto* begin = static_cast<const std::byte*>(host);
    const std::byte* first = mapped_byte(begin);
    const std::size_t last = std::max<std::size_t>(bytes, 1) - 1;
    return first != nullptr && mapped_byte(begin + last) == first + last ? first : nullptr;
}

template class Memory<Place::device>;
template class Memory<Place::pinned_host>;

} // namespace trtw
