// A bounded map that forgets what was not used for longest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <unordered_map>
#include <utility>
#include <vector>

namespace trtw {

/// A key of integers: shapes, addresses, choices.
using CallKey = std::vector<std::int64_t>;

struct CallKeyHash {
    std::size_t operator()(const CallKey& key) const noexcept {
        std::uint64_t hash = 0xcbf29ce484222325U; // FNV-1a, a word at a time
        for (const std::int64_t word : key) {
            hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x100000001b3U;
            hash ^= hash >> 32U;
        }
        return static_cast<std::size_t>(hash);
    }
};

/// References stay valid until their entry is evicted or the map is cleared.
template <class Value>
class LruMap {
public:
    /// `before_eviction` is told of every value that makes room; not of those that `clear` drops.
    explicit LruMap(std::size_t capacity, std::function<void(Value&)> before_eviction = {})
        : capacity_{capacity > 0 ? capacity : 1}, before_eviction_{std::move(before_eviction)} {}

    /// The entry of the key, which becomes the newest; null where there is none.
    Value* find(const CallKey& key) {
        const auto found = index_.find(key);
        if (found == index_.end()) {
            return nullptr;
        }
        order_.splice(order_.begin(), order_, found->second);
        return &order_.front().second;
    }

    /// Takes an entry of a new key; it is the newest.
    Value& add(const CallKey& key, Value value) {
        while (order_.size() >= capacity_) {
            if (before_eviction_) {
                before_eviction_(order_.back().second);
            }
            index_.erase(order_.back().first);
            order_.pop_back();
        }
        order_.emplace_front(key, std::move(value));
        index_.emplace(key, order_.begin());
        return order_.front().second;
    }

    void clear() {
        index_.clear();
        order_.clear();
    }
    [[nodiscard]] std::size_t size() const noexcept { return order_.size(); }
    auto begin() { return order_.begin(); }
    auto end() { return order_.end(); }
    auto begin() const { return order_.begin(); }
    auto end() const { return order_.end(); }

private:
    std::size_t capacity_;
    std::function<void(Value&)> before_eviction_;
    std::list<std::pair<CallKey, Value>> order_; // newest first
    std::unordered_map<CallKey, typename std::list<std::pair<CallKey, Value>>::iterator, CallKeyHash> index_;
};

} // namespace trtw
