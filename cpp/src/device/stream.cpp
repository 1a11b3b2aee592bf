#include "trtw/device/stream.hpp"

#include "trtw/device/check.hpp"

namespace trtw::device {

Event::Event(EventKind kind, Wait wait) {
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
