// Owned memory: on the device, and page-locked on the host.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace trtw::device {

/// Where a block of memory lives.
enum class Place { device, pinned_host };

/// One block of memory of `Place`; move-only. At least one byte is allocated, so that an empty tensor has an address.
template <Place place>
class Memory {
public:
    explicit Memory(std::size_t bytes);
    ~Memory();
    Memory(Memory&& other) noexcept
        : pointer_{std::exchange(other.pointer_, nullptr)}, bytes_{std::exchange(other.bytes_, 0)} {}
    Memory& operator=(Memory&& other) noexcept {
        std::swap(pointer_, other.pointer_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    [[nodiscard]] void* data() const noexcept { return pointer_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

private:
    void* pointer_ = nullptr;
    std::size_t bytes_ = 0;
};

extern template class Memory<Place::device>;
extern template class Memory<Place::pinned_host>;

using DeviceMemory = Memory<Place::device>;
using PinnedMemory = Memory<Place::pinned_host>;

/// The address at which the current GPU reads `bytes` of host memory that is page-locked, whoever locked it; null where
/// its first or its last byte is not, or where the driver cannot tell. What lies between is not asked about.
const void* mapped(const void* host, std::size_t bytes) noexcept;

/// A block that only grows. Its memory is shared with the views that were handed out: growing gives the buffer a
/// new block, and the old one lives until its last view is gone.
template <Place place>
class GrowingBuffer {
public:
    /// Makes room for `bytes`; returns true when the address changed. Contents are not kept.
    /// Throws OutOfMemory and keeps the old block where there is no room.
    bool reserve(std::size_t bytes) {
        if (block_ && block_->bytes() >= bytes) {
            return false;
        }
        block_ = std::make_shared<Memory<place>>(bytes);
        return true;
    }
    void release() noexcept { block_.reset(); }

    [[nodiscard]] void* data() const noexcept { return block_ ? block_->data() : nullptr; }
    [[nodiscard]] std::size_t capacity() const noexcept { return block_ ? block_->bytes() : 0; }
    [[nodiscard]] const std::shared_ptr<Memory<place>>& block() const noexcept { return block_; }

private:
    std::shared_ptr<Memory<place>> block_;
};

using DeviceBuffer = GrowingBuffer<Place::device>;
using PinnedBuffer = GrowingBuffer<Place::pinned_host>;

} // namespace trtw::device
