#include "run/lanes.hpp"

#include <cuda_runtime_api.h>

namespace trtw {

namespace {

EventKind kind_of(const RunnerOptions& options) {
    return options.timing ? EventKind::timing : EventKind::order;
}

} // namespace

Lanes::Lanes(const RunnerOptions& options)
    : timing{options.timing}, h2d_begin{kind_of(options)}, h2d_end{kind_of(options)}, compute_begin{kind_of(options)},
      compute_end{kind_of(options)}, d2h_begin{kind_of(options)}, d2h_end{kind_of(options)},
      done{EventKind::order, options.spin ? Wait::spin : Wait::block} {}

void Lanes::mark(const Event& event, cudaStream_t stream, bool capturing) const {
    if (!timing) {
        return;
    }
    if (capturing) {
        event.record_external(stream);
    } else {
        event.record(stream);
    }
}

void Lanes::wait_for(cudaStream_t producer) {
    produced_.record(producer);
    compute.wait(produced_);
}

void Lanes::read_times(Timing& times, bool fused) const {
    if (timing) {
        times.h2d_ms = (fused ? compute_begin : h2d_end).milliseconds_since(h2d_begin);
        times.compute_ms = compute_end.milliseconds_since(compute_begin);
        times.d2h_ms = d2h_end.milliseconds_since(fused ? compute_end : d2h_begin);
    }
}

void Lanes::drain() const noexcept {
    for (const Stream* stream : {&input, &compute, &output}) {
        static_cast<void>(cudaStreamSynchronize(stream->get()));
    }
}

} // namespace trtw
