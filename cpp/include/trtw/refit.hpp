// New weights for an existing engine, without building it again.
#pragma once

#include "trtw/plan.hpp"
#include "trtw/shared_bytes.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace trtw {

/// Values of one weight in host memory, row-major; valid until refit returns.
struct WeightValues {
    const void* data = nullptr;
    std::string dtype;
    std::size_t count = 0; ///< elements
};

/// Names of the weights that the engine lets replace. Throws UsageProblem where the engine is not refittable.
std::vector<std::string> refittable_weights(const Plan& plan);

/// Puts an ONNX model's weights into the engine and serialises it, weights included. The model has to have the
/// structure that the engine was built from. Runners of the engine go on with the new weights: calls that begin during
/// the refit wait for its end.
/// Throws UsageProblem where calls of the engine are in flight (TensorRT leaves a refit undefined then), where this
/// version has no parser refitter (TensorRT 8), where the model does not fit, or where the engine is not refittable.
SharedBytes refit_from_onnx(const Plan& plan, const std::string& model_path);

/// The same with named values. Weights that depend on the replaced ones must be replaced as well; UsageProblem lists
/// those that are missing, and names that the engine does not have.
SharedBytes refit_from_values(const Plan& plan, const std::map<std::string, WeightValues>& weights);

} // namespace trtw
