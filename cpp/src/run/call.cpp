#include "trtw/call.hpp"

#include "trtw/error.hpp"

#include <algorithm>

namespace trtw {

namespace {

void check_images(const TensorInfo& tensor, const Input& input) {
#ifdef TRTW_WITH_KERNELS
    input.spec.validate();
    if (input.images.empty()) {
        throw UsageProblem("A letterbox batch must have at least one image.");
    }
    for (const ImageView& image : input.images) {
        static_cast<void>(letterbox_geometry(image.height, image.width, input.spec));
    }
    if (!tensor.is_linear && input.spec.layout != Layout::nchw) {
        throw UsageProblem("Input '" + tensor.name + "' has the format " + tensor.format +
                           ", in which the letterbox writes images for a model that takes NCHW only.");
    }
    if (byte_size(tensor, input.shape) != input.images.size() * input.spec.item_bytes()) {
        throw UsageProblem("Input '" + tensor.name + "' has the shape " + bracketed(input.shape) +
                           ", which is not that of its " + std::to_string(input.images.size()) + " images.");
    }
#else
    static_cast<void>(tensor);
    static_cast<void>(input);
    throw ComponentMissing("The core was built without CUDA kernels (no nvcc); preprocess on the host, or run "
                           "`build-native` where nvcc is installed.");
#endif
}

} // namespace

void check_tensors(const std::vector<TensorInfo>& tensors) {
    for (const TensorInfo& tensor : tensors) {
        if (!tensor.is_linear && !(tensor.is_input && tensor.channel_group > 0)) {
            throw UsageProblem("Tensor '" + tensor.name + "' has the format " + tensor.format +
                               "; the runner takes row-major tensors, and inputs in HWC and HWC8. Build the engine "
                               "without I/O formats.");
        }
        if (tensor.bits == 0 || tensor.bits % 8 != 0) {
            throw UsageProblem("Tensor '" + tensor.name + "' has dtype " + tensor.dtype +
                               ", which the runner cannot move as an input or output.");
        }
    }
}

std::string graph_text(const SlotStatus& status) {
    const std::string count = std::to_string(status.graphs) + (status.graphs == 1 ? " graph" : " graphs") + " captured";
    if (!status.graph_fallback.empty()) {
        return status.graphs > 0 ? "partly: " + count + "; " + status.graph_fallback : "off: " + status.graph_fallback;
    }
    return status.graphs > 0 ? "on: " + count : "not yet: a call is captured at its second use";
}

void check_volume(const Shape& shape, std::size_t elements) {
    if (volume(shape) != static_cast<std::int64_t>(elements)) {
        throw UsageProblem("An array of " + std::to_string(elements) + " elements cannot have the shape " +
                           bracketed(shape) + ".");
    }
}

const void* Output::host_values(std::string_view dtype) const {
    if (!on_host || in_place || host == nullptr) {
        throw UsageProblem("Output '" + tensor->name + "' is not in the runner's host memory.");
    }
    if (dtype != tensor->dtype) {
        throw UsageProblem("Output '" + tensor->name + "' has dtype " + tensor->dtype + ", not " + std::string{dtype} +
                           ".");
    }
    return host->data();
}

void check_input(const TensorInfo& tensor, const Input& input) {
    if (!input.dtype.empty() && input.dtype != tensor.dtype) {
        throw UsageProblem("Input '" + tensor.name + "' has dtype " + tensor.dtype + ", not " +
                           std::string{input.dtype} + ".");
    }
    if (tensor.on_host && input.source != Source::host) {
        throw UsageProblem("Input '" + tensor.name +
                           "' is a shape tensor: TensorRT reads it in host memory; pass a numpy array.");
    }
    if (input.source == Source::images) {
        check_images(tensor, input);
        return;
    }
    const bool is_array = input.source == Source::host || input.source == Source::device;
    if (is_array && input.data == nullptr && volume(input.shape) != 0) {
        throw UsageProblem("Input '" + tensor.name + "' has no data.");
    }
    if (!input.strides.empty() && input.strides.size() != input.shape.size()) {
        throw UsageProblem("Input '" + tensor.name + "' has " + std::to_string(input.shape.size()) +
                           " dimensions and " + std::to_string(input.strides.size()) + " strides.");
    }
}

void check_inputs(const std::vector<TensorInfo>& tensors, const std::vector<Input>& inputs) {
    if (inputs.size() != tensors.size()) {
        throw UsageProblem("The call has " + std::to_string(inputs.size()) + " inputs, the engine " +
                           std::to_string(tensors.size()) + ".");
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        check_input(tensors[i], inputs[i]);
    }
}

void check_call(const std::vector<TensorInfo>& inputs, std::size_t outputs, const Call& call) {
    check_inputs(inputs, call.inputs);
    const auto misfits = [&](const auto& entries) { return !entries.empty() && entries.size() != outputs; };
    const auto lacks = [&](const auto& flags) { return flags && flags->size() != outputs; };
    if (lacks(call.to_host) || lacks(call.to_device) || misfits(call.at) || misfits(call.room) || misfits(call.into)) {
        throw UsageProblem("The call's to_host, to_device, at, room or into lacks one entry for each of the engine's " +
                           std::to_string(outputs) + " outputs.");
    }
}

bool feeds(const std::map<std::string, std::string>& state, const std::string& input) {
    return std::ranges::any_of(state, [&](const auto& pair) { return pair.second == input; });
}

} // namespace trtw
