// Which outputs a call copies to the host, and what of them.
#pragma once

#include "trtw/call.hpp"
#include "trtw/plan.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace trtw {

/// By output: whether it is copied where the call does not say. State outputs are not, unless they are asked for.
std::vector<bool> default_outputs(const Plan& plan, const RunnerOptions& options);

/// Throws UsageProblem where there is room for another shape than the output's.
void check_room(const TensorInfo& output, const std::optional<Shape>& room, const Shape& shape);

class HostOutputs {
public:
    HostOutputs(const Plan& plan, const RunnerOptions& options)
        : plan_{&plan}, default_{default_outputs(plan, options)} {}

    [[nodiscard]] bool wanted(const Call& call, std::size_t output) const {
        return call.to_host ? (*call.to_host)[output] : default_[output];
    }
    /// The one index of the second dimension that is copied; nullopt for the whole output, or none of it.
    [[nodiscard]] std::optional<std::int64_t> index(const Call& call, std::size_t output) const {
        return call.at.empty() || !wanted(call, output) ? std::nullopt : call.at[output];
    }
    /// Of what the host gets of an output of this shape. Throws UsageProblem for an index that the output does not
    /// have.
    [[nodiscard]] std::size_t bytes(const Call& call, std::size_t output, const Shape& shape) const;
    /// Throws UsageProblem where the call has room for another shape than that of an output.
    void check_room(const Call& call, std::size_t output, const Shape& shape) const;

private:
    const Plan* plan_;
    std::vector<bool> default_;
};

} // namespace trtw
