// Owned memory: on the device, and page-locked on the host.
#pragma once

#include "trtw/detail/readers.hpp"

#include <atomic>
#include <cstddef>
#include <memory>

namespace trtw {

/// Where a block of memory lives.
enum class Place { device, pinned_host };

/// One block of memory of `Place`. At least one byte is allocated, so that an empty tensor has an address.
template <Place place>
class Memory {
public:
    explicit Memory(std::size_t bytes);
    ~Memory();
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

/// Device memory that other libraries may be reading.
class DeviceMemory : public Memory<Place::device> {
public:
    using Memory::Memory;
    [[nodiscard]] Readers& readers() noexcept { return readers_; }

private:
    Readers readers_;
};

using PinnedMemory = Memory<Place::pinned_host>;

/// The address at which the current GPU reads `bytes` of host memory that is page-locked, whoever locked it; null where
/// its first or its last byte is not, or where the driver cannot tell. What lies between is not asked about.
const void* mapped(const void* host, std::size_t bytes) noexcept;

/// A block that only grows. Its memory is shared with the views that were handed out: growing gives the buffer a
/// new block, and the old one lives until its last view is gone.
template <class Block>
class GrowingBuffer {
public:
    /// Makes room for `bytes`; returns true when the address changed. Contents are not kept.
    /// Throws OutOfMemory and keeps the old block where there is no room.
    bool reserve(std::size_t bytes) {
        if (block_ && block_->bytes() >= bytes) {
            return false;
        }
        block_ = std::make_shared<Block>(bytes);
        return true;
    }
    void release() noexcept { block_.reset(); }

    /// Whether somebody holds the block beside this buffer. True may be out of date at once; false stays so, and what
    /// the last holder did with the block has happened.
    [[nodiscard]] bool is_lent() const noexcept {
        if (block_.use_count() > 1) {
            return true;
        }
#ifdef __SANITIZE_THREAD__
        const std::shared_ptr<Block> acquired{block_}; // ThreadSanitizer knows no fences; this costs two locked additions
#else
        std::atomic_thread_fence(std::memory_order_acquire);
#endif
        return false;
    }

    [[nodiscard]] void* data() const noexcept { return block_ ? block_->data() : nullptr; }
    [[nodiscard]] std::size_t capacity() const noexcept { return block_ ? block_->bytes() : 0; }
    [[nodiscard]] const std::shared_ptr<Block>& block() const noexcept { return block_; }

private:
    std::shared_ptr<Block> block_;
};

using DeviceBuffer = GrowingBuffer<DeviceMemory>;
using PinnedBuffer = GrowingBuffer<PinnedMemory>;

} // namespace trtw
