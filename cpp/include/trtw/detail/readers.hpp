// Streams of other libraries that read a block of device memory.
#pragma once

#include "trtw/detail/stream.hpp"

#include <atomic>
#include <initializer_list>
#include <mutex>
#include <vector>

namespace trtw {

/// What has to be over before a block is written again. Thread-safe; without readers it costs one atomic read a call.
class Readers {
public:
    /// What `stream` of this device was given so far may read the block. Called by whoever lets go of the block, from
    /// any thread; where no event can be had, it waits for the whole device.
    void add(int device, cudaStream_t stream) noexcept;

    /// Makes what is put on these streams from now on wait for the readers, and forgets them.
    void make_wait(std::initializer_list<cudaStream_t> streams) {
        if (any_.load(std::memory_order_acquire)) [[unlikely]] {
            wait_for_all(streams);
        }
    }

private:
    void wait_for_all(std::initializer_list<cudaStream_t> streams);

    std::atomic<bool> any_ = false;
    std::mutex mutex_;
    std::vector<Event> events_;
};

} // namespace trtw
