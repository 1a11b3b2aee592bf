#include "run/context_cache.hpp"

#include "trtw/error.hpp"

#include <algorithm>
#include <utility>

namespace trtw {

namespace {

// What is worked out about shapes takes a hundredth of a context's memory, or less.
constexpr std::size_t known_for_each_place = 8;
constexpr std::size_t most_bindings = 16;
// So many calls of a kind without a place, within which one that has a place was not used at all, make it give way.
constexpr int patience = 8;

bool has_contexts(const Prepared& entry) {
    return std::ranges::any_of(entry.bindings, [](const auto& binding) { return binding->own != nullptr; });
}

} // namespace

ContextCache::ContextCache(std::shared_ptr<const Plan> plan, void* scratch, std::size_t capacity,
                           std::function<void()> before_drop)
    : plan_{std::move(plan)}, scratch_{scratch}, capacity_{capacity}, before_drop_{std::move(before_drop)},
      roamers_(static_cast<std::size_t>(std::max(plan_->num_profiles(), 1))),
      entries_{capacity * known_for_each_place, [this](Prepared& entry) { leave(entry); }} {}

// Nothing that is kept about the binding may be taken for one that comes to lie where it was.
void ContextCache::forget(const Binding& binding) noexcept {
    for (Roamer& roamer : roamers_) {
        roamer.set_up = roamer.set_up == &binding ? nullptr : roamer.set_up;
    }
}

void ContextCache::leave(Prepared& entry) {
    if (has_contexts(entry)) {
        before_drop_();
    }
    for (const auto& binding : entry.bindings) {
        forget(*binding);
    }
    for (Roamer& roamer : roamers_) {
        roamer.shapes = roamer.shapes == &entry ? nullptr : roamer.shapes;
    }
    places_ -= entry.has_place ? 1 : 0;
    entry.has_place = false;
    entry.bindings.clear();
}

Prepared& ContextCache::keep(const CallKey& key, Prepared entry) {
    Prepared& kept = entries_.add(key, std::move(entry));
    roamers_[static_cast<std::size_t>(kept.profile)].shapes = &kept;
    return kept;
}

Binding* ContextCache::find(Prepared& entry, const CallKey& key) {
    const auto found = std::ranges::find_if(entry.bindings, [&](const auto& one) { return one->key == key; });
    if (found == entry.bindings.end()) {
        return nullptr;
    }
    std::rotate(entry.bindings.begin(), found, found + 1);
    return entry.bindings.front().get();
}

Binding& ContextCache::add(Prepared& entry, const CallKey& key) {
    if (entry.bindings.size() >= most_bindings) {
        drop(entry, *entry.bindings.back());
    }
    auto binding = std::make_unique<Binding>();
    binding->key = key;
    return **entry.bindings.insert(entry.bindings.begin(), std::move(binding));
}

void ContextCache::drop(Prepared& entry, const Binding& binding) {
    if (binding.own) {
        before_drop_();
    }
    forget(binding);
    std::erase_if(entry.bindings, [&](const auto& one) { return one.get() == &binding; });
}

ContextCache::Roamer& ContextCache::roamer(int profile, cudaStream_t stream) {
    Roamer& roamer = roamers_[static_cast<std::size_t>(profile)];
    if (roamer.execution) {
        return roamer;
    }
    roamer = {};
    roamer.execution = Execution::create(plan_, profile, scratch_, stream);
    if (!roamer.execution) {
        roamer.execution = take_from_binding(profile);
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

std::unique_ptr<Execution> ContextCache::take_from_binding(int profile) {
    for (auto& [key, entry] : entries_) {
        for (const auto& binding : entry.bindings) {
            if (binding->own && entry.profile == profile) {
                before_drop_();
                binding->graph = {};
                binding->uses = 0; // shapes in alternation must not capture at every call
                return std::move(binding->own);
            }
        }
    }
    return nullptr;
}

bool ContextCache::has_place(Prepared& entry) {
    if (!entry.has_place && places_ < capacity_) {
        entry.has_place = true;
        ++places_;
    }
    if (entry.has_place) {
        return true;
    }
    Prepared* oldest = nullptr;
    for (auto& [key, other] : entries_) {
        if (other.has_place && (oldest == nullptr || other.last_use < oldest->last_use)) {
            oldest = &other;
        }
    }
    if (oldest->last_use > entry.asks_since) {
        entry.asks_since = uses_;
        entry.asks = 0;
    }
    if (++entry.asks < patience) {
        return false;
    }
    leave(*oldest);
    entry.has_place = true;
    ++places_;
    return true;
}

void ContextCache::promote(const Prepared& entry, Binding& binding) {
    Roamer& roamer = roamers_[static_cast<std::size_t>(entry.profile)];
    binding.own = std::move(roamer.execution);
    binding.bound = roamer.bound;
    roamer = {};
}

void ContextCache::clear() {
    entries_.clear();
    places_ = 0;
    for (Roamer& roamer : roamers_) {
        roamer = {};
    }
}

int ContextCache::graphs() const {
    std::ptrdiff_t count = 0;
    for (const auto& [key, entry] : entries_) {
        count += std::ranges::count_if(entry.bindings, [](const auto& binding) { return bool{binding->graph}; });
    }
    return static_cast<int>(count);
}

} // namespace trtw
