#include "trtw/device/stream.hpp"

#include "trtw/device/check.hpp"

#include <thread>

namespace trtw::device {

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

Stream::Stream() {
    TRTW_CUDA(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking));
}

Stream::~Stream() {
    if (handle_ != nullptr) {
        static_cast<void>(cudaStreamDestroy(handle_));
    }
}

void Stream::wait(const Event& event) const {
    TRTW_CUDA(cudaStreamWaitEvent(handle_, event.get(), 0));
}

void Stream::synchronize() const {
    TRTW_CUDA(cudaStreamSynchronize(handle_));
}

} // namespace trtw::device
