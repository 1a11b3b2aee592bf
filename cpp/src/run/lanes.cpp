#include "run/lanes.hpp"

#include <cuda_runtime_api.h>

namespace trtw {

Lanes::Lanes(const RunnerOptions& options)
    : work{compute.get()}, done{std::make_shared<Event>(EventKind::order, options.spin ? Wait::spin : Wait::block)} {}

void Lanes::begin(cudaStream_t stream, bool timed_call) {
    work = stream;
    timed = timed_call;
    if (timed && !marks_) {
        marks_ = std::make_unique<Marks>();
    }
}

void Lanes::mark(Event Marks::* event, cudaStream_t stream, bool capturing) const {
    if (!timed) {
        return;
    }
    if (capturing) {
        (*marks_.*event).record_external(stream);
    } else {
        (*marks_.*event).record(stream);
    }
}

void Lanes::wait_for(cudaStream_t producer, cudaStream_t waiting) {
    if (producer != waiting) {
        produced_.record(producer);
        produced_.make_wait(waiting);
    }
}

void Lanes::read_times(Timing& times, bool fused) const {
    if (timed) {
        times.h2d_ms = (fused ? marks_->compute_begin : marks_->h2d_end).milliseconds_since(marks_->h2d_begin);
        times.compute_ms = marks_->compute_end.milliseconds_since(marks_->compute_begin);
        times.d2h_ms = marks_->d2h_end.milliseconds_since(fused ? marks_->compute_end : marks_->d2h_begin);
    }
}

void Lanes::drain() const noexcept {
    for (cudaStream_t stream : {input.get(), compute.get(), output.get(), work}) {
        static_cast<void>(cudaStreamSynchronize(stream));
    }
    static_cast<void>(cudaEventSynchronize(done->get()));
}

} // namespace trtw
