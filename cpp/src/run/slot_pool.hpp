// Hands slots to threads, in turn.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace trtw::engine {

/// Slots are numbers 0 to count-1. A slot is free, leased (its call is being run by a thread), or parked (its call is
/// in flight, and a ticket owns it).
class SlotPool {
public:
    using Patience = std::chrono::steady_clock::duration;
    /// `patience`: how long `lease` waits while every slot is parked by the calling thread.
    explicit SlotPool(int count, Patience patience = std::chrono::seconds{10});

    /// The slot that was free for longest; waits until one is. Throws UsageProblem where the calling thread itself
    /// holds the tickets of every slot and no other thread waits for one within `patience`.
    int lease();
    /// Ends a lease.
    void release(int slot);

    /// Parks a leased slot for the calling thread, and makes it leased again.
    void park(int slot);
    void unpark(int slot);

    /// Leases a certain slot that is free; nullopt where it is busy.
    std::optional<int> try_lease(int slot);

private:
    [[nodiscard]] bool all_parked_by(std::thread::id thread) const;

    std::mutex mutex_;
    std::condition_variable freed_;
    std::deque<int> free_;
    std::vector<std::optional<std::thread::id>> parked_; ///< by slot: who parked it
    Patience patience_;
};

} // namespace trtw::engine
