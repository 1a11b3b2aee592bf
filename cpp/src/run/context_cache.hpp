// The execution contexts of one slot, and the CUDA graphs captured from them.
#pragma once

#include "device/graph.hpp"
#include "run/execution.hpp"
#include "run/lru.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trtw {

/// Calls of one kind that lie at the same addresses and make the same choices of outputs.
struct Binding {
    CallKey key;
    bool in_place = false; ///< reads a device array where it lies that could be copied
    int uses = 0;
    bool capture_failed = false;
    /// The context that the graph was captured from. A captured graph works with buffers inside its context that
    /// depend on the shapes, so a context that has a graph is never given other shapes.
    std::unique_ptr<Execution> own;
    std::uint64_t bound = 0; ///< address generation that `own` and the graph hold
    Graph graph;
};

/// What is known about one kind of call: same shapes, from the same kinds of memory.
struct Prepared {
    int profile = 0;
    bool fused = false;          ///< copies and compute in one stream, and in one graph but for those apart
    bool inputs_apart = false;   ///< some input is copied apart
    bool data_dependent = false; ///< some output's shape is known only after running
    std::string no_graph;        ///< why such calls always run without a graph; empty where they need not
    std::vector<std::size_t> input_bytes;
    std::vector<Shape> output_shapes;      ///< empty for data-dependent outputs
    std::vector<std::size_t> output_bytes; ///< likewise 0
    std::vector<bool> output_data_dependent;
    std::vector<std::unique_ptr<Binding>> bindings; ///< the newest first

    bool has_place = false;     ///< may have contexts of its own
    std::uint64_t last_use = 0; ///< by the count of all calls
    std::uint64_t asks_since = 0;
    int asks = 0;        ///< how often it could have used a place since then
    CallKey moved;       ///< addresses whose contents the last calls copied,
    int times_moved = 0; ///< and how many calls did so in succession
};

/// Contexts share one block of scratch memory: a slot runs one call at a time.
class ContextCache {
public:
    /// `capacity`: of how many kinds of calls there are graphs at once. `before_drop` is called before a context goes
    /// or changes that the device may still be at.
    ContextCache(std::shared_ptr<const Plan> plan, void* scratch, std::size_t capacity,
                 std::function<void()> before_drop);

    /// The entry of a call, which is the last one used; null where there is none.
    Prepared* entry(const CallKey& key) { return entries_.find(key); }
    /// Keeps a new one, whose shapes the roaming context of its profile was given.
    Prepared& keep(const CallKey& key, Prepared entry);
    /// Counts a use of an entry.
    void use(Prepared& entry) noexcept { entry.last_use = ++uses_; }

    /// The binding of this key, which becomes the newest; null where there is none.
    static Binding* find(Prepared& entry, const CallKey& key);
    /// A new one. The oldest makes room.
    Binding& add(Prepared& entry, const CallKey& key);
    void drop(Prepared& entry, const Binding& binding);

    /// A context of the profile that takes any shape; one for each profile, made at first need. Where the engine
    /// allows one context a profile, a binding gives up its own (and its graph) for it. Throws UsageProblem where
    /// there is none to take, OutOfMemory or DeviceFailure.
    struct Roamer {
        std::unique_ptr<Execution> execution;
        const Prepared* shapes = nullptr; ///< whose shapes it was given; null for none
        const Binding* set_up = nullptr;  ///< for which it is bound; null for none
        std::uint64_t bound = 0;          ///< address generation it holds
    };
    Roamer& roamer(int profile, cudaStream_t stream);

    /// Whether the entry may have contexts of its own. Where all places are taken, it gets that of one that was not
    /// used for long: one shape more than places must not make every shape lose its graph in turn.
    bool has_place(Prepared& entry);
    /// Moves the profile's roaming context, set up for this binding, into the binding.
    void promote(const Prepared& entry, Binding& binding);

    /// Drops every context and graph; after a failure nothing is assumed about them.
    void clear();

    [[nodiscard]] int graphs() const;
    /// True once a graph had to give way because the engine allows one context a profile.
    [[nodiscard]] bool profiles_are_exclusive() const noexcept { return exclusive_; }

private:
    void leave(Prepared& entry);
    void forget(const Binding& binding) noexcept;
    std::unique_ptr<Execution> take_from_binding(int profile);

    std::shared_ptr<const Plan> plan_;
    void* scratch_;
    std::size_t capacity_;
    std::function<void()> before_drop_;
    std::vector<Roamer> roamers_;
    LruMap<Prepared> entries_;
    std::size_t places_ = 0; ///< that are taken
    std::uint64_t uses_ = 0;
    bool exclusive_ = false;
};

} // namespace trtw
