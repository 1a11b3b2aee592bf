#include "trtw/detail/readers.hpp"

#include "device/check.hpp"
#include "device/scope.hpp"

#include <exception>
#include <utility>

namespace trtw {

void Readers::add(int device, cudaStream_t stream) noexcept {
    try {
        const DeviceScope scope{device};
        cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
        const cudaError_t asked = cudaStreamIsCapturing(stream, &capturing);
        if (asked == cudaErrorStreamCaptureImplicit || capturing != cudaStreamCaptureStatusNone) {
            static_cast<void>(cudaGetLastError());
            return; // an event of a capture orders nothing outside it; when its graph runs is its owner's affair
        }
        check_cuda(asked, "cudaStreamIsCapturing");
        Event event;
        event.record(stream);
        const std::scoped_lock lock{mutex_};
        events_.push_back(std::move(event));
        any_.store(true, std::memory_order_release);
    } catch (const std::exception&) {
        static_cast<void>(cudaDeviceSynchronize());
        static_cast<void>(cudaGetLastError());
    }
}

void Readers::wait_for_all(std::initializer_list<cudaStream_t> streams) {
    const std::scoped_lock lock{mutex_};
    for (const Event& event : events_) {
        for (cudaStream_t stream : streams) {
            event.make_wait(stream);
        }
    }
    events_.clear();
    any_.store(false, std::memory_order_relaxed);
}

} // namespace trtw
