#include "trtw/engine/slot_pool.hpp"

#include "trtw/error.hpp"

#include <algorithm>
#include <string>

namespace trtw::engine {

SlotPool::SlotPool(int count, Patience patience) : count_{count}, patience_{patience} {
    for (int slot = 0; slot < count; ++slot) {
        free_.push_back(slot);
    }
}

bool SlotPool::all_parked_by(std::thread::id thread) const {
    return static_cast<int>(parked_.size()) == count_ &&
           std::all_of(parked_.begin(), parked_.end(), [&](const auto& item) { return item.second.owner == thread; });
}

int SlotPool::lease() {
    std::unique_lock lock{mutex_};
    const std::thread::id self = std::this_thread::get_id();
    while (!freed_.wait_for(lock, patience_, [&] { return !free_.empty(); })) {
        if (all_parked_by(self)) {
            throw UsageProblem("Every slot of the runner (" + std::to_string(count_) +
                               ") holds a call that this thread submitted and nobody waits for. Call wait with an "
                               "earlier ticket first, or make the runner with more slots.");
        }
    }
    const int slot = free_.front();
    free_.pop_front();
    return slot;
}

void SlotPool::release(int slot) {
    {
        const std::scoped_lock lock{mutex_};
        free_.push_back(slot);
    }
    freed_.notify_one();
}

std::uint64_t SlotPool::park(int slot) {
    const std::scoped_lock lock{mutex_};
    const std::uint64_t ticket = next_ticket_++;
    parked_.emplace(ticket, Parked{slot, std::this_thread::get_id()});
    return ticket;
}

int SlotPool::unpark(std::uint64_t ticket) {
    const std::scoped_lock lock{mutex_};
    const auto found = parked_.find(ticket);
    if (found == parked_.end()) {
        throw UsageProblem("Ticket " + std::to_string(ticket) + " is unknown, or was waited for already.");
    }
    const int slot = found->second.slot;
    parked_.erase(found);
    return slot;
}

std::optional<int> SlotPool::try_lease(int slot) {
    const std::scoped_lock lock{mutex_};
    const auto found = std::find(free_.begin(), free_.end(), slot);
    if (found == free_.end()) {
        return std::nullopt;
    }
    free_.erase(found);
    return slot;
}

} // namespace trtw::engine
