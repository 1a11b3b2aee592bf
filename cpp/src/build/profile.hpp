// Optimisation profiles: the range of input shapes that an engine accepts and is tuned for.
#pragma once

#include "trtw/build_options.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace trtw {

/// What a profile has to fit: an input of the network.
struct ProfileInput {
    std::string name;
    std::vector<std::int64_t> shape;          ///< -1 where dynamic
    std::vector<std::string> dimension_names; ///< the model's symbols; empty text where a dimension has none
    bool is_shape_tensor = false;
};

/// The one shape of every input, for inputs of fixed shapes alone. Scalars have no range to give.
Profile fixed_profile(const std::vector<ProfileInput>& inputs);

/// The input's shape with every dimension settled to which all profiles leave one and the same value.
std::vector<std::int64_t> settled_shape(const ProfileInput& input, const std::vector<Profile>& profiles);

/// Checks profiles against the network's inputs before TensorRT sees them: names, ranks, min <= opt <= max,
/// static dimensions kept, every dynamic input covered, equal ranges for dimensions of one symbol.
/// Throws UsageProblem that names the profile and the input.
void validate_profiles(const std::vector<Profile>& profiles, const std::vector<ProfileInput>& inputs);

} // namespace trtw
