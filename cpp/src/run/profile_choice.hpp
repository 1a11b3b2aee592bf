// Which optimisation profile serves the shapes of a call.
#pragma once

#include "trtw/tensor.hpp"

#include <optional>
#include <span>

namespace trtw {

/// Shapes, and for shape tensors values, of a call; one entry an input, in the order of the inputs.
struct CallShapes {
    std::vector<Shape> shapes;
    std::vector<Shape> values; ///< empty for inputs that are no shape tensors
};

/// The values of a shape tensor in host memory, row-major: integers and bools as they are, floats by their bits, which
/// tell two calls apart. No profile has ranges of floats.
Shape shape_values(const TensorInfo& tensor, const Shape& shape, const void* data);

/// Throws UsageProblem for a profile that an engine of `count` profiles does not have.
void check_profile(std::optional<int> profile, int count);

/// Of the profiles that allow the call: the one whose optimum it is, else the one with the smallest maximum, else
/// the first. `fixed` leaves no choice. `inputs` are the engine's inputs in order.
/// Throws UsageProblem with the input, what it got and every profile's range where none fits.
int choose_profile(std::span<const TensorInfo> inputs, const CallShapes& call, std::optional<int> fixed);

/// Whether one profile allows the call.
bool profile_allows(std::span<const TensorInfo> inputs, const CallShapes& call, int profile);

} // namespace trtw
