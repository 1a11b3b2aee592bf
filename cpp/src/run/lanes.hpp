// The streams of a slot, and the events that order and time its calls.
#pragma once

#include "trtw/call.hpp"
#include "trtw/detail/stream.hpp"

#include <memory>

namespace trtw {

struct Lanes {
    explicit Lanes(const RunnerOptions& options);

    /// The times that are taken of a call; made at the first one whose caller asks for them.
    struct Marks {
        Event h2d_begin{EventKind::timing}, h2d_end{EventKind::timing};
        Event compute_begin{EventKind::timing}, compute_end{EventKind::timing};
        Event d2h_begin{EventKind::timing}, d2h_end{EventKind::timing};
    };
    /// Begins a call whose engine runs on this stream.
    void begin(cudaStream_t stream, bool timed_call);
    /// Records one of the marks of a timed call.
    void mark(Event Marks::* event, cudaStream_t stream, bool capturing = false) const;
    /// Makes the stream of the call, or another one, wait for a stream's work so far.
    void wait_for(cudaStream_t producer) { wait_for(producer, work); }
    void wait_for(cudaStream_t producer, cudaStream_t waiting);
    /// The device times of a finished call; `fused`: all of it ran in the stream of the engine.
    void read_times(Timing& timing, bool fused) const;
    /// Waits for all streams. What failed is being reported already.
    void drain() const noexcept;

    Stream input{StreamUse::copy};
    Stream compute;
    Stream output{StreamUse::copy};
    Stream capture{StreamUse::copy}; ///< nothing runs there
    cudaStream_t work;               ///< where the engine of this call runs: `compute`, or a stream of the caller's
    bool timed = false;
    Event copied;   ///< the inputs of a call that uses several streams are there
    Event computed; ///< the engine's part of such a call is done
    /// The slot is done with its last call. Shared with arrays that others wait for: later calls record it again, which
    /// makes who waits wait longer, never too short.
    std::shared_ptr<Event> done;

private:
    Event produced_;
    std::unique_ptr<Marks> marks_;
};

} // namespace trtw
