#include "run/slot_pool.hpp"

#include "trtw/error.hpp"

#include <algorithm>
#include <string>

namespace trtw::engine {

SlotPool::SlotPool(int count, Patience patience) : parked_(static_cast<std::size_t>(count)), patience_{patience} {
    for (int slot = 0; slot < count; ++slot) {
        free_.push_back(slot);
    }
}

bool SlotPool::all_parked_by(std::thread::id thread) const {
    return std::all_of(parked_.begin(), parked_.end(), [&](const auto& owner) { return owner == thread; });
}

int SlotPool::lease() {
    std::unique_lock lock{mutex_};
    const std::thread::id self = std::this_thread::get_id();
    while (!freed_.wait_for(lock, patience_, [&] { return !free_.empty(); })) {
        if (all_parked_by(self)) {
            throw UsageProblem("Every slot of the runner (" + std::to_string(parked_.size()) +
                               ") holds a call that this thread submitted and nobody waits for. Take an earlier "
                               "ticket's result first, or make the runner with more slots.");
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

void SlotPool::park(int slot) {
    const std::scoped_lock lock{mutex_};
    parked_[static_cast<std::size_t>(slot)] = std::this_thread::get_id();
}

void SlotPool::unpark(int slot) {
    const std::scoped_lock lock{mutex_};
    parked_[static_cast<std::size_t>(slot)].reset();
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
