// Hands slots to threads, in turn.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace trtw {

/// Slots are numbers 0 to count-1. A slot is free, leased (its call is being run by a thread), or parked (its call is
/// in flight, and a ticket owns it).
class SlotPool {
public:
    using Patience = std::chrono::steady_clock::duration;
    /// `patience`: how long `lease` waits for itself. `while_waiting` is called ten times a second by a thread that
    /// waits; what it throws ends the wait.
    explicit SlotPool(int count, Patience patience = std::chrono::seconds{10},
                      std::function<void()> while_waiting = {});

    /// The slot that was free for longest; waits until one is. Throws UsageProblem where all slots stay parked for
    /// `patience`, some by the calling thread, and whoever parked one waits here, too.
    int lease();
    /// Ends a lease.
    void release(int slot);

    /// Parks a leased slot for the calling thread, and makes it leased again.
    void park(int slot);
    void unpark(int slot);

    /// Leases a certain slot that is free; nullopt where it is busy.
    std::optional<int> try_lease(int slot);

private:
    [[nodiscard]] bool is_stuck() const;
    void wait_for_slot(std::unique_lock<std::mutex>& lock);

    std::mutex mutex_;
    std::condition_variable freed_;
    std::deque<int> free_;
    std::vector<std::optional<std::thread::id>> parked_; ///< by slot: who parked it
    std::vector<std::thread::id> waiting_;
    Patience patience_;
    std::function<void()> while_waiting_;
};

} // namespace trtw
