// What the doubles of engines compute: functions of float32 vectors.
#pragma once

#include "trtw/tensor.hpp"

#include <functional>
#include <string>
#include <vector>

namespace fake {

using Values = std::vector<float>;
using trtw::TensorInfo;

/// Inputs to outputs, in the engine's order; `weight` is what a refit changes.
using Compute = std::function<std::vector<Values>(const std::vector<Values>& inputs, float weight)>;

struct Model {
    std::vector<TensorInfo> tensors;
    Compute compute;
};

/// A float32 vector of up to 8 elements (-1), or of a fixed number.
TensorInfo input(const std::string& name, std::int64_t elements);
TensorInfo output(const std::string& name, std::int64_t elements, const std::string& aliased_input = "");

/// "recurrent": y = x + h + weight and h_next = h + x, all of one length. "twice": y = 2 x + weight. No tensors for
/// another name.
Model model(const std::string& name, std::int64_t elements);

} // namespace fake
