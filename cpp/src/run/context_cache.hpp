// The execution contexts of one slot, and the CUDA graphs captured from them.
#pragma once

#include "device/graph.hpp"
#include "run/execution.hpp"
#include "run/lru.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trtw {

/// What is known about one kind of call: same shapes, same addresses, same choices.
struct Prepared {
    int profile = -1; ///< -1: not worked out yet
    int uses = 0;
    bool fused = false;          ///< copies and compute in one stream, and in one graph but for those apart
    bool inputs_apart = false;   ///< some input is copied apart
    bool data_dependent = false; ///< some output's shape is known only after running
    bool capture_failed = false; ///< or cannot succeed: the call always runs without a graph
    std::string no_graph;        ///< why not, where that is known beforehand
    std::vector<std::size_t> input_bytes;
    std::vector<Shape> output_shapes; ///< empty for data-dependent outputs
    std::vector<bool> output_data_dependent;
    /// The context that the graph was captured from. A captured graph works with buffers inside its context that
    /// depend on the shapes, so a context that has a graph is never given other shapes.
    std::unique_ptr<Execution> own;
    std::uint64_t bound = 0; ///< address generation that `own` and the graph hold
    Graph graph;
};

/// Contexts share one block of scratch memory: a slot runs one call at a time.
class ContextCache {
public:
    ContextCache(std::shared_ptr<const Plan> plan, void* scratch, std::size_t capacity);

    /// The entry of a call; made where it is new.
    Prepared& entry(const CallKey& key) { return entries_[key]; }

    /// A context of the profile that takes any shape; one for each profile, made at first need. Where the engine
    /// allows one context a profile, an entry gives up its own (and its graph) for it. Throws UsageProblem where
    /// there is none to take, OutOfMemory or DeviceFailure.
    struct Roamer {
        std::unique_ptr<Execution> execution;
        CallKey key;                              ///< the call it is set up for; empty for none
        std::uint64_t bound = 0;                  ///< address generation it holds
        std::optional<std::vector<Shape>> shapes; ///< that it was given
    };
    Roamer& roamer(int profile, cudaStream_t stream);

    /// Moves the profile's roaming context, set up for this entry's call, into the entry.
    void promote(Prepared& entry);

    /// Drops every context and graph; after a failure nothing is assumed about them.
    void clear();

    [[nodiscard]] int graphs() const;
    /// True once a graph had to give way because the engine allows one context a profile.
    [[nodiscard]] bool profiles_are_exclusive() const noexcept { return exclusive_; }

private:
    std::unique_ptr<Execution> take_from_entry(int profile);

    std::shared_ptr<const Plan> plan_;
    void* scratch_;
    std::vector<Roamer> roamers_;
    LruMap<Prepared> entries_;
    bool exclusive_ = false;
};

} // namespace trtw
