// Owned CUDA streams and events.
#pragma once

#include "trtw/detail/cuda_handles.hpp"

#include <chrono>
#include <utility>

namespace trtw {

/// What an event is for.
enum class EventKind {
    order, ///< ordering and waiting alone: no timestamp, cheapest
    timing ///< also takes the device's time
};

/// How the host waits for an event.
enum class Wait {
    spin, ///< polls: least latency, one core busy
    block ///< sleeps until the driver wakes it
};

class Event {
public:
    explicit Event(EventKind kind = EventKind::order, Wait wait = Wait::spin);
    ~Event();
    Event(Event&& other) noexcept : handle_{std::exchange(other.handle_, nullptr)}, wait_{other.wait_} {}
    Event& operator=(Event&& other) noexcept {
        std::swap(handle_, other.handle_);
        std::swap(wait_, other.wait_);
        return *this;
    }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    [[nodiscard]] cudaEvent_t get() const noexcept { return handle_; }
    void record(cudaStream_t stream) const;
    /// Records from within a captured graph, as a node that runs at every launch.
    void record_external(cudaStream_t stream) const;
    /// Makes what is put on the stream from now on wait for what was recorded.
    void make_wait(cudaStream_t stream) const;
    void synchronize() const;
    /// Whether the host need not wait; never waits, nor throws: a failure is for `synchronize` to report.
    [[nodiscard]] bool is_done() const noexcept;
    /// Waits at most until then (time_point::max(): without end); returns is_done().
    [[nodiscard]] bool wait_until(std::chrono::steady_clock::time_point deadline) const noexcept;
    /// Milliseconds of device time from `begin` to this event; both of kind timing and done.
    [[nodiscard]] float milliseconds_since(const Event& begin) const;

private:
    cudaEvent_t handle_ = nullptr;
    Wait wait_;
};

/// What a stream is used for.
enum class StreamUse { compute, copy };

/// A stream that does not wait for the legacy default stream.
///
/// Streams that are given back are used again, for the same use, the latest first: once a process has launched kernels
/// on a second stream, those of a CUDA graph follow one another more slowly on every stream (ResNet-50 at batch 1 on an
/// H200 6 %; docs/benchmarks/tensorrt-h200), so that engines which run one after the other share one. A stream that is
/// given back with work in flight is right all the same: whatever uses it next comes after that work.
class Stream {
public:
    explicit Stream(StreamUse use = StreamUse::compute);
    ~Stream();
    Stream(Stream&& other) noexcept
        : handle_{std::exchange(other.handle_, nullptr)}, device_{other.device_}, use_{other.use_} {}
    Stream& operator=(Stream&& other) noexcept {
        std::swap(handle_, other.handle_);
        std::swap(device_, other.device_);
        std::swap(use_, other.use_);
        return *this;
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    [[nodiscard]] cudaStream_t get() const noexcept { return handle_; }
    void synchronize() const;

private:
    cudaStream_t handle_ = nullptr;
    int device_ = 0;
    StreamUse use_;
};

} // namespace trtw
