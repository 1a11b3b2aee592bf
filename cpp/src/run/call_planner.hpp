// Works out what a call needs: shapes, profile, memory, a context with everything bound.
#pragma once

#include "run/context_cache.hpp"
#include "run/transfers.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace trtw {

class CallPlanner {
public:
    /// `settle` makes sure that the device is at none of the slot's contexts.
    CallPlanner(std::shared_ptr<const Plan> plan, const RunnerOptions& options, Lanes& lanes, CallMemory& memory,
                Transfers& transfers, std::function<void()> settle);

    /// Checks the call, and puts state and memory in place for it. See Slot::launch for what a refusal leaves.
    Prepared& prepare(const Call& call);
    /// Whether the call that was prepared last was of the same kind as the one before it.
    [[nodiscard]] bool repeats() const noexcept { return repeats_; }
    /// Of the call that was prepared last.
    [[nodiscard]] Binding& binding() noexcept { return *binding_; }
    /// The context to launch, with everything bound, of a call without a usable graph.
    Execution& set_up(const Call& call, const Prepared& entry);
    /// After a failure nothing is assumed about contexts and graphs.
    void forget() noexcept;

    [[nodiscard]] ContextCache& contexts() noexcept { return contexts_; }
    [[nodiscard]] std::size_t scratch_bytes() const noexcept { return scratch_.capacity(); }

private:
    void check(const Call& call) const;
    [[nodiscard]] const Shape& shape_of(const Call& call, std::size_t input) const;
    void take_shapes(const Call& call);
    void stage_shape_tensors(const Call& call);
    void make_key(const Call& call);
    void work_out(const Call& call, Prepared& entry);
    Binding& place(const Call& call, Prepared& entry);
    [[nodiscard]] bool is_movable(const Prepared& entry, std::size_t input) const;
    [[nodiscard]] bool reads_in_place(Prepared& entry, std::size_t choices);
    void give_shapes(ContextCache::Roamer& roamer, const Prepared& entry);
    void bind(const Call& call, const Prepared& entry, Execution& execution);

    std::shared_ptr<const Plan> plan_;
    const RunnerOptions* options_;
    Lanes* lanes_;
    CallMemory* memory_;
    Transfers* transfers_;

    DeviceBuffer scratch_;
    ContextCache contexts_; ///< goes before the memory that it is bound to
    bool reads_host_;       ///< some input is a shape tensor
    CallKey key_;
    CallKey last_key_;
    bool repeats_ = false;
    Prepared* last_ = nullptr;
    CallKey places_;
    Binding* binding_ = nullptr;
    std::vector<Shape> shapes_; ///< of this call's inputs, state included
    std::vector<Shape> values_; ///< of this call's shape tensors
    std::uint64_t weights_ = 0; ///< changes of the weights that the graphs know of
};

} // namespace trtw
