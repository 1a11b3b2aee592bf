// The streams of a slot, and the events that order and time its calls.
#pragma once

#include "trtw/call.hpp"
#include "trtw/detail/stream.hpp"

namespace trtw {

struct Lanes {
    explicit Lanes(const RunnerOptions& options);

    /// Records an event that only the times need.
    void mark(const Event& event, cudaStream_t stream, bool capturing = false) const;
    /// Makes the compute stream wait for another one's work so far.
    void wait_for(cudaStream_t producer);
    /// The device times of a finished call; `fused`: all of it ran in the compute stream.
    void read_times(Timing& timing, bool fused) const;
    /// Waits for all streams. What failed is being reported already.
    void drain() const noexcept;

    const bool timing;
    Stream input{StreamUse::copy};
    Stream compute;
    Stream output{StreamUse::copy};
    Event h2d_begin, h2d_end, compute_begin, compute_end, d2h_begin, d2h_end;
    Event done;

private:
    Event produced_;
};

} // namespace trtw
