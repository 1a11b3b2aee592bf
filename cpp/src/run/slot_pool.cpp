#include "run/slot_pool.hpp"

#include "trtw/error.hpp"

#include <algorithm>
#include <string>

namespace trtw {

SlotPool::SlotPool(int count, Patience patience, std::function<void()> while_waiting)
    : parked_(static_cast<std::size_t>(count)), patience_{patience}, while_waiting_{std::move(while_waiting)} {
    for (int slot = 0; slot < count; ++slot) {
        free_.push_back(slot);
    }
}

// Whether the calling thread waits for itself: those that could take a ticket's result all wait for a slot.
bool SlotPool::is_stuck() const {
    const auto waits = [&](const auto& owner) {
        return owner && std::ranges::find(waiting_, *owner) != waiting_.end();
    };
    return std::ranges::find(parked_, std::optional{std::this_thread::get_id()}) != parked_.end() &&
           std::ranges::all_of(parked_, waits);
}

void SlotPool::wait_for_slot(std::unique_lock<std::mutex>& lock) {
    using Clock = std::chrono::steady_clock;
    constexpr Patience beat = std::chrono::milliseconds{100};
    Clock::time_point end = Clock::now() + patience_;
    while (!freed_.wait_for(lock, std::min(patience_, beat), [&] { return !free_.empty(); })) {
        if (!is_stuck()) {
            end = Clock::now() + patience_;
        } else if (Clock::now() >= end) {
            throw UsageProblem("Every slot of the runner (" + std::to_string(parked_.size()) +
                               ") holds a submitted call whose result nobody waits for, so no slot becomes free. Take "
                               "an earlier ticket's result first, or make the runner with more "
                               "slots.");
        }
        if (while_waiting_) {
            lock.unlock();
            while_waiting_();
            lock.lock();
        }
    }
}

int SlotPool::lease() {
    std::unique_lock lock{mutex_};
    if (free_.empty()) {
        waiting_.push_back(std::this_thread::get_id());
        const auto leave = [&] { waiting_.erase(std::ranges::find(waiting_, std::this_thread::get_id())); };
        try {
            wait_for_slot(lock);
        } catch (...) {
            if (!lock.owns_lock()) {
                lock.lock();
            }
            leave();
            throw;
        }
        leave();
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

} // namespace trtw
