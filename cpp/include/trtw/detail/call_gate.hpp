// Keeps calls of an engine and changes of its weights apart.
#pragma once

#include "trtw/error.hpp"

#include <atomic>
#include <cstdint>
#include <string>

namespace trtw {

/// Lets any number of calls in, or one change. Thread-safe; a call costs two atomic additions and no lock.
class CallGate {
public:
    /// A call, from before it is enqueued until the device is done with it. Waits for the end of a change.
    class Call {
    public:
        explicit Call(CallGate& gate) noexcept : gate_{gate} { gate_.enter(); }
        ~Call() { gate_.calls_.fetch_sub(1, std::memory_order_release); }
        Call(const Call&) = delete;
        Call& operator=(const Call&) = delete;

    private:
        CallGate& gate_;
    };

    /// A change. Throws UsageProblem where calls are in flight: to wait for those whose tickets the calling thread
    /// holds would have no end.
    class Closed {
    public:
        explicit Closed(CallGate& gate) : gate_{gate} { gate_.close(); }
        ~Closed() {
            gate_.changes_.fetch_add(1, std::memory_order_relaxed);
            gate_.calls_.store(0, std::memory_order_release);
            gate_.calls_.notify_all();
        }
        Closed(const Closed&) = delete;
        Closed& operator=(const Closed&) = delete;

    private:
        CallGate& gate_;
    };

    /// How many changes there were. For whoever holds a Call.
    [[nodiscard]] std::uint64_t changes() const noexcept { return changes_.load(std::memory_order_relaxed); }

private:
    static constexpr int closed = -1;

    void enter() noexcept {
        int calls = calls_.load(std::memory_order_relaxed);
        while (true) {
            if (calls == closed) {
                calls_.wait(closed);
                calls = calls_.load(std::memory_order_relaxed);
            } else if (calls_.compare_exchange_weak(calls, calls + 1, std::memory_order_acquire)) {
                return;
            }
        }
    }

    void close() {
        int calls = 0;
        if (calls_.compare_exchange_strong(calls, closed, std::memory_order_acquire)) {
            return;
        }
        if (calls == closed) {
            throw UsageProblem("The engine is being refitted by another thread.");
        }
        throw UsageProblem("The engine has " + std::to_string(calls) + (calls == 1 ? " call" : " calls") +
                           " in flight, during which a refit is undefined. Wait for their tickets first, or "
                           "refit an engine that no runner has.");
    }

    std::atomic<int> calls_ = 0;
    std::atomic<std::uint64_t> changes_ = 0;
};

} // namespace trtw
