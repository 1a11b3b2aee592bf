#include "run/host_outputs.hpp"

#include "run/slice.hpp"
#include "trtw/error.hpp"

#include <algorithm>

namespace trtw {

std::vector<bool> default_outputs(const Plan& plan, const RunnerOptions& options) {
    std::vector<bool> to_host;
    for (const TensorInfo& tensor : plan.outputs()) {
        to_host.push_back(options.outputs ? std::find(options.outputs->begin(), options.outputs->end(), tensor.name) !=
                                                options.outputs->end()
                                          : !options.state.contains(tensor.name));
    }
    return to_host;
}

void check_room(const TensorInfo& output, const std::optional<Shape>& room, const Shape& shape) {
    if (room && *room != shape) {
        throw UsageProblem("The array for output '" + output.name + "' has the shape " + bracketed(*room) +
                           ", but the output has " + bracketed(shape) + ".");
    }
}

std::size_t HostOutputs::bytes(const Call& call, std::size_t output, const Shape& shape) const {
    const TensorInfo& tensor = plan_->outputs()[output];
    const std::optional<std::int64_t> at = index(call, output);
    if (!at) {
        return byte_size(tensor, shape);
    }
    if (tensor.on_host) {
        throw UsageProblem("Output '" + tensor.name +
                           "' is written to host memory by TensorRT; only the whole output is available.");
    }
    return slice_at(tensor, shape, *at).bytes();
}

void HostOutputs::check_room(const Call& call, std::size_t output, const Shape& shape) const {
    if (call.room.empty()) {
        return;
    }
    const TensorInfo& tensor = plan_->outputs()[output];
    const std::optional<std::int64_t> at = index(call, output);
    trtw::check_room(tensor, call.room[output], at ? slice_at(tensor, shape, *at).shape : shape);
}

} // namespace trtw
