#include "trtw/detail/stream.hpp"

#include "device/check.hpp"

#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace trtw {

Event::Event(EventKind kind, Wait wait) : wait_{wait} {
    unsigned flags = cudaEventDefault;
    if (kind == EventKind::order) {
        flags |= cudaEventDisableTiming;
    }
    if (wait == Wait::block) {
        flags |= cudaEventBlockingSync;
    }
    TRTW_CUDA(cudaEventCreateWithFlags(&handle_, flags));
}

Event::~Event() {
    if (handle_ != nullptr) {
        static_cast<void>(cudaEventDestroy(handle_));
    }
}

void Event::record(cudaStream_t stream) const {
    TRTW_CUDA(cudaEventRecord(handle_, stream));
}

void Event::record_external(cudaStream_t stream) const {
    TRTW_CUDA(cudaEventRecordWithFlags(handle_, stream, cudaEventRecordExternal));
}

void Event::make_wait(cudaStream_t stream) const {
    TRTW_CUDA(cudaStreamWaitEvent(stream, handle_, 0));
}

void Event::synchronize() const {
    TRTW_CUDA(cudaEventSynchronize(handle_));
}

bool Event::is_done() const noexcept {
    if (cudaEventQuery(handle_) != cudaErrorNotReady) {
        return true;
    }
    static_cast<void>(cudaGetLastError()); // no error that a later call should report
    return false;
}

bool Event::wait_until(std::chrono::steady_clock::time_point deadline) const noexcept {
    if (deadline == std::chrono::steady_clock::time_point::max()) {
        static_cast<void>(cudaEventSynchronize(handle_));
        return true;
    }
    constexpr std::chrono::microseconds nap{50}; // CUDA has no wait with an end
    while (!is_done()) {
        if (std::chrono::steady_clock::now() >= deadline) {
            return false;
        }
        if (wait_ == Wait::spin) {
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(nap);
        }
    }
    return true;
}

float Event::milliseconds_since(const Event& begin) const {
    float milliseconds = 0.0F;
    TRTW_CUDA(cudaEventElapsedTime(&milliseconds, begin.handle_, handle_));
    return milliseconds;
}

namespace {

// Streams that were given back, by device and use. Never destroyed: streams of static objects come back late.
struct IdleStreams {
    std::mutex mutex;
    std::map<std::pair<int, StreamUse>, std::vector<cudaStream_t>> handles;
};

IdleStreams& idle_streams() {
    static auto* const streams = new IdleStreams;
    return *streams;
}

} // namespace

Stream::Stream(StreamUse use) : use_{use} {
    TRTW_CUDA(cudaGetDevice(&device_));
    {
        IdleStreams& idle = idle_streams();
        const std::scoped_lock lock{idle.mutex};
        std::vector<cudaStream_t>& handles = idle.handles[{device_, use_}];
        if (!handles.empty()) {
            handle_ = handles.back();
            handles.pop_back();
            return;
        }
    }
    TRTW_CUDA(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking));
}

Stream::~Stream() {
    if (handle_ == nullptr) {
        return;
    }
    // A capture that was left open, or an error of the device, would be the next user's.
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(handle_, &capture) != cudaSuccess || capture != cudaStreamCaptureStatusNone) {
        static_cast<void>(cudaGetLastError());
        static_cast<void>(cudaStreamDestroy(handle_));
        return;
    }
    try {
        IdleStreams& idle = idle_streams();
        const std::scoped_lock lock{idle.mutex};
        idle.handles[{device_, use_}].push_back(handle_);
    } catch (const std::exception&) { // no memory for the list
        static_cast<void>(cudaStreamDestroy(handle_));
    }
}

void Stream::synchronize() const {
    TRTW_CUDA(cudaStreamSynchronize(handle_));
}

} // namespace trtw
