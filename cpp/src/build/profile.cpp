#include "build/profile.hpp"

#include "trt/joined.hpp"
#include "trtw/error.hpp"

#include <algorithm>

namespace trtw {

namespace {

[[noreturn]] void fail(std::size_t profile, const std::string& input, const std::string& problem) {
    throw UsageProblem("Profile " + std::to_string(profile) + ", input '" + input + "': " + problem + ".");
}

void check_order(std::size_t profile, const std::string& input, const ProfileRange& range) {
    if (range.min.size() != range.opt.size() || range.opt.size() != range.max.size()) {
        fail(profile, input,
             "min, opt and max differ in length: " + shape_text(range.min) + ", " + shape_text(range.opt) + ", " +
                 shape_text(range.max));
    }
    for (std::size_t i = 0; i < range.opt.size(); ++i) {
        if (range.min[i] > range.opt[i] || range.opt[i] > range.max[i]) {
            fail(profile, input,
                 "min <= opt <= max does not hold at position " + std::to_string(i) + ": " + shape_text(range.min) +
                     ", " + shape_text(range.opt) + ", " + shape_text(range.max));
        }
    }
}

void check_shape(std::size_t profile, const ProfileInput& input, const ProfileRange& range) {
    check_order(profile, input.name, range);
    if (range.opt.size() != input.shape.size()) {
        fail(profile, input.name,
             "has " + std::to_string(range.opt.size()) + " dimensions, the model's input " +
                 std::to_string(input.shape.size()) + " (" + shape_text(input.shape) + ")");
    }
    for (std::size_t i = 0; i < input.shape.size(); ++i) {
        if (range.min[i] < 0) {
            fail(profile, input.name, "dimensions cannot be negative: min " + shape_text(range.min));
        }
        if (input.shape[i] >= 0 && (range.min[i] != input.shape[i] || range.max[i] != input.shape[i])) {
            fail(profile, input.name,
                 "dimension " + std::to_string(i) + " is fixed to " + std::to_string(input.shape[i]) +
                     " in the model: min " + shape_text(range.min) + ", max " + shape_text(range.max));
        }
    }
}

// Dimensions that the model calls by one symbol are equal at run time, so their ranges must be.
void check_symbols(std::size_t number, const Profile& profile, const std::vector<ProfileInput>& inputs) {
    struct Seen {
        std::string input;
        ProfileRange range;
    };
    std::map<std::string, Seen> symbols;
    for (const ProfileInput& input : inputs) {
        const auto found = profile.shapes.find(input.name);
        if (found == profile.shapes.end()) {
            continue;
        }
        const ProfileRange& range = found->second;
        for (std::size_t i = 0; i < std::min(range.opt.size(), input.dimension_names.size()); ++i) {
            const std::string& symbol = input.dimension_names[i];
            if (symbol.empty() || input.shape[i] >= 0) {
                continue;
            }
            const ProfileRange own{{range.min[i]}, {range.opt[i]}, {range.max[i]}};
            const auto [place, fresh] = symbols.try_emplace(symbol, Seen{input.name, own});
            if (!fresh && place->second.range != own) {
                fail(number, input.name,
                     "dimension '" + symbol + "' ranges over " + shape_text(own.min) + ", " + shape_text(own.opt) +
                         ", " + shape_text(own.max) + ", but over " + shape_text(place->second.range.min) + ", " +
                         shape_text(place->second.range.opt) + ", " + shape_text(place->second.range.max) +
                         " in input '" + place->second.input + "'");
            }
        }
    }
}

void check_names(std::size_t number, const std::map<std::string, ProfileRange>& entries,
                 const std::vector<ProfileInput>& inputs) {
    for (const auto& [name, range] : entries) {
        if (std::none_of(inputs.begin(), inputs.end(), [&](const ProfileInput& input) { return input.name == name; })) {
            fail(number, name, "the model has no such input; it has " + joined(inputs, ", ", &ProfileInput::name));
        }
    }
}

void check_input(std::size_t number, const Profile& profile, const ProfileInput& input) {
    const auto shape = profile.shapes.find(input.name);
    if (shape != profile.shapes.end()) {
        check_shape(number, input, shape->second);
    } else if (is_dynamic(input.shape)) {
        fail(number, input.name, "is dynamic (" + shape_text(input.shape) + "), but the profile has no range for it");
    }
    const auto values = profile.values.find(input.name);
    if (values != profile.values.end()) {
        if (!input.is_shape_tensor) {
            fail(number, input.name, "has a range of values, but it is not a shape tensor; give a range of shapes");
        }
        check_order(number, input.name, values->second);
    } else if (input.is_shape_tensor) {
        fail(number, input.name, "is a shape tensor: the profile needs a range of its values");
    }
}

} // namespace

Profile fixed_profile(const std::vector<ProfileInput>& inputs) {
    Profile profile;
    for (const ProfileInput& input : inputs) {
        if (!input.shape.empty()) {
            profile.shapes[input.name] = {input.shape, input.shape, input.shape};
        }
    }
    return profile;
}

std::vector<std::int64_t> settled_shape(const ProfileInput& input, const std::vector<Profile>& profiles) {
    std::vector<std::int64_t> shape = input.shape;
    for (std::size_t i = 0; i < shape.size() && !profiles.empty(); ++i) {
        const auto leaves_one = [&](const Profile& profile) {
            const auto found = profile.shapes.find(input.name);
            const auto first = profiles.front().shapes.find(input.name);
            return found != profile.shapes.end() && found->second.min[i] == found->second.max[i] &&
                   found->second.min[i] == first->second.min[i];
        };
        if (shape[i] < 0 && std::all_of(profiles.begin(), profiles.end(), leaves_one)) {
            shape[i] = profiles.front().shapes.at(input.name).min[i];
        }
    }
    return shape;
}

void validate_profiles(const std::vector<Profile>& profiles, const std::vector<ProfileInput>& inputs) {
    if (profiles.empty()) {
        for (const ProfileInput& input : inputs) {
            if (is_dynamic(input.shape) || input.is_shape_tensor) {
                throw UsageProblem(
                    "Input '" + input.name + "' is " +
                    (input.is_shape_tensor ? "a shape tensor" : "dynamic (" + shape_text(input.shape) + ")") +
                    ", so the engine needs an optimisation profile with its min, opt and max.");
            }
        }
    }
    for (std::size_t number = 0; number < profiles.size(); ++number) {
        check_names(number, profiles[number].shapes, inputs);
        check_names(number, profiles[number].values, inputs);
        for (const ProfileInput& input : inputs) {
            check_input(number, profiles[number], input);
        }
        check_symbols(number, profiles[number], inputs);
    }
}

} // namespace trtw
