#include "run/context_cache.hpp"

#include "trtw/error.hpp"

#include <algorithm>

namespace trtw {

ContextCache::ContextCache(std::shared_ptr<const Plan> plan, void* scratch, std::size_t capacity)
    : plan_{std::move(plan)}, scratch_{scratch}, roamers_(static_cast<std::size_t>(std::max(plan_->num_profiles(), 1))),
      entries_{capacity} {}

ContextCache::Roamer& ContextCache::roamer(int profile, cudaStream_t stream) {
    Roamer& roamer = roamers_[static_cast<std::size_t>(profile)];
    if (roamer.execution) {
        return roamer;
    }
    roamer = {};
    roamer.execution = Execution::create(plan_, profile, scratch_, stream);
    if (!roamer.execution) {
        roamer.execution = take_from_entry(profile);
        exclusive_ = true;
    }
    if (!roamer.execution) {
        throw UsageProblem("Profile " + std::to_string(profile) +
                           " is in use by another execution context, and the engine was built without profile "
                           "sharing. Use one slot and one runner for it, or build it again with profile sharing "
                           "(TensorRT 10 always has it).");
    }
    return roamer;
}

std::unique_ptr<Execution> ContextCache::take_from_entry(int profile) {
    for (auto& [key, entry] : entries_) {
        if (entry.own && entry.profile == profile) {
            entry.graph = {};
            entry.uses = 0; // shapes in alternation must not capture at every call
            return std::move(entry.own);
        }
    }
    return nullptr;
}

void ContextCache::promote(Prepared& entry) {
    Roamer& roamer = roamers_[static_cast<std::size_t>(entry.profile)];
    entry.own = std::move(roamer.execution);
    entry.bound = roamer.bound;
    roamer.key.clear();
}

void ContextCache::clear() {
    entries_.clear();
    for (Roamer& roamer : roamers_) {
        roamer = {};
    }
}

int ContextCache::graphs() const {
    return static_cast<int>(
        std::count_if(entries_.begin(), entries_.end(), [](const auto& item) { return bool{item.second.graph}; }));
}

} // namespace trtw
