// What tests see of the double of CUDA, and may have it do.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>

namespace fake {

/// The device lags: work is done when somebody waits for it, as late as streams and events allow, and now and then
/// something else by lot. On a stream that is held nothing is done, nor what waits for its events. Ordinary host memory
/// is copied from at once, and waited for where it is copied to.
void enqueue(cudaStream_t stream, std::function<void()> work);
/// Chooses the lot; as every test program starts, 0.
void seed(unsigned number);
/// Everything that can be done is.
void catch_up();
void hold(cudaStream_t stream);
/// And catches up, as the end of HeldDevice does.
void release(cudaStream_t stream);

/// Holds every stream that there is while it lives, and those that are made.
class HeldDevice {
public:
    HeldDevice();
    ~HeldDevice();
    HeldDevice(const HeldDevice&) = delete;
    HeldDevice& operator=(const HeldDevice&) = delete;
};

/// While it lives, device memory of more than so many bytes cannot be had.
class FullDevice {
public:
    explicit FullDevice(std::size_t most = 0);
    ~FullDevice();
    FullDevice(const FullDevice&) = delete;
    FullDevice& operator=(const FullDevice&) = delete;
};

/// While it lives, memory is page-locked.
class PageLocked {
public:
    PageLocked(const void* data, std::size_t bytes);
    ~PageLocked();
    PageLocked(const PageLocked&) = delete;
    PageLocked& operator=(const PageLocked&) = delete;

private:
    const void* data_;
};

/// Copies that were enqueued so far and begin to read, or to write, in this memory.
std::size_t copies_from(const void* data, std::size_t bytes);
std::size_t copies_to(const void* data, std::size_t bytes);

/// Of the calling thread; there are two.
int device();
/// So far, of the process.
std::size_t allocations();
std::size_t launched_graphs();
std::size_t waits();
std::size_t destroyed_streams();

} // namespace fake
