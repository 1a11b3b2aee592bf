// Hands slots to threads, in turn.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

namespace trtw::engine {

/// Slots are numbers 0 to count-1. A slot is free, leased (its call is being run by a thread), or parked under a
/// ticket (its call is in flight and somebody will wait for it).
class SlotPool {
public:
    using Patience = std::chrono::steady_clock::duration;
    /// `patience`: how long `lease` waits while every slot is parked under tickets of the calling thread.
    explicit SlotPool(int count, Patience patience = std::chrono::seconds{10});

    /// The slot that was free for longest; waits until one is. Throws UsageProblem where the calling thread itself
    /// holds the tickets of every slot and no other thread waits for one within `patience`.
    int lease();
    /// Ends a lease, or takes a parked slot's place back among the free ones.
    void release(int slot);

    /// Parks a leased slot; the ticket is unique for this pool.
    std::uint64_t park(int slot);
    /// Makes a parked slot leased again. Throws UsageProblem for a ticket that is unknown or waited for already.
    int unpark(std::uint64_t ticket);

    /// Leases a certain slot that is free; nullopt where it is busy.
    std::optional<int> try_lease(int slot);

private:
    struct Parked {
        int slot;
        std::thread::id owner;
    };
    [[nodiscard]] bool all_parked_by(std::thread::id thread) const;

    std::mutex mutex_;
    std::condition_variable freed_;
    std::deque<int> free_;
    std::unordered_map<std::uint64_t, Parked> parked_;
    std::uint64_t next_ticket_ = 1;
    int count_;
    Patience patience_;
};

} // namespace trtw::engine
