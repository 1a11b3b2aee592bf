// A call within a CUDA graph that its caller captures.
#pragma once

#include "run/execution.hpp"
#include "trtw/call.hpp"

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

namespace trtw {

/// What such a call works with. The graph may be launched at any time, beside calls of the runner, so that it shares
/// nothing with them: it has a context, scratch memory and outputs of its own, which it needs until it goes.
class CapturedCall {
public:
    /// Puts the call into the graph that `stream` captures. `profile` as in RunnerOptions. Throws UsageProblem for a
    /// call that does not fit the engine or a graph, OutOfMemory or DeviceFailure.
    CapturedCall(std::shared_ptr<const Plan> plan, const Call& call, std::optional<int> profile, cudaStream_t stream);

    [[nodiscard]] const std::vector<Output>& outputs() const noexcept { return outputs_; }
    /// Whether the graph has gone, and what was made of it.
    [[nodiscard]] bool is_over() const noexcept { return over_->load(); }
    void add_to(MemoryUse& use) const noexcept;

private:
    void check(const Call& call) const;
    void make_context(const Call& call, std::optional<int> profile, cudaStream_t stream);
    void make_inputs(const Call& call, cudaStream_t stream);
    void make_outputs(const Call& call);
    void end_with(cudaStream_t stream);
    [[nodiscard]] void* input_address(const Call& call, std::size_t input) const;

    // In this order: the context goes before what it is bound to.
    std::shared_ptr<const Plan> plan_;
    std::unique_ptr<DeviceMemory> scratch_;
    std::vector<std::unique_ptr<DeviceMemory>> copies_; ///< by input: what the engine reads instead of the array
    std::vector<Output> outputs_;
    std::unique_ptr<Execution> execution_;
    std::shared_ptr<std::atomic<bool>> over_ = std::make_shared<std::atomic<bool>>(false);
};

} // namespace trtw
