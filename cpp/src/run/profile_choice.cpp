#include "run/profile_choice.hpp"

#include "trtw/error.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace trtw {

namespace {

template <class Number>
std::int64_t read(const std::byte* bytes) {
    Number number{};
    std::memcpy(&number, bytes, sizeof number);
    return static_cast<std::int64_t>(number);
}

bool within(const Shape& value, const ProfileRange& range) {
    if (value.size() != range.min.size()) {
        return false;
    }
    for (std::size_t i = 0; i < value.size(); ++i) {
        if (value[i] < range.min[i] || value[i] > range.max[i]) {
            return false;
        }
    }
    return true;
}

bool input_allowed(const TensorInfo& input, const Shape& shape, const Shape& values, std::size_t profile) {
    if (!within(shape, input.profiles[profile])) {
        return false;
    }
    return values.empty() || profile >= input.values.size() || within(values, input.values[profile]);
}

bool is_optimum(std::span<const TensorInfo> inputs, const CallShapes& call, std::size_t profile) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (call.shapes[i] != inputs[i].profiles[profile].opt) {
            return false;
        }
    }
    return true;
}

double largest_volume(std::span<const TensorInfo> inputs, std::size_t profile) {
    double sum = 0.0;
    for (const TensorInfo& input : inputs) {
        double product = 1.0;
        for (const std::int64_t dim : input.profiles[profile].max) {
            product *= static_cast<double>(dim);
        }
        sum += product;
    }
    return sum;
}

std::string range_text(const ProfileRange& range) {
    return "min " + bracketed(range.min) + ", opt " + bracketed(range.opt) + ", max " + bracketed(range.max);
}

// The first input that no considered profile allows tells most; where each fits somewhere, the whole does not.
std::string misfit(std::span<const TensorInfo> inputs, const CallShapes& call, std::size_t first, std::size_t last) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        bool fits_somewhere = false;
        std::string ranges;
        for (std::size_t p = first; p < last; ++p) {
            fits_somewhere = fits_somewhere || input_allowed(inputs[i], call.shapes[i], call.values[i], p);
            ranges += "; profile " + std::to_string(p) + ": " + range_text(inputs[i].profiles[p]);
            if (!call.values[i].empty() && p < inputs[i].values.size()) {
                ranges += ", values " + range_text(inputs[i].values[p]);
            }
        }
        if (!fits_somewhere) {
            std::string got = "shape " + bracketed(call.shapes[i]);
            if (!call.values[i].empty() && !holds_floats(inputs[i])) {
                got += " with values " + bracketed(call.values[i]);
            }
            return "Input '" + inputs[i].name + "' has " + got + ", which no profile of the engine allows" + ranges +
                   ". Build the engine with a profile that covers it.";
        }
    }
    std::string text = "No single profile of the engine allows these shapes together:";
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        text += (i == 0 ? " " : ", ") + inputs[i].name + " " + bracketed(call.shapes[i]);
        for (std::size_t p = first; p < last; ++p) {
            text += "; profile " + std::to_string(p) + ": " + range_text(inputs[i].profiles[p]);
        }
    }
    return text + ". Build the engine with a profile that covers them.";
}

} // namespace

Shape shape_values(const TensorInfo& tensor, const Shape& shape, const void* data) {
    Shape values(static_cast<std::size_t>(volume(shape)));
    const auto* bytes = static_cast<const std::byte*>(data);
    for (std::int64_t& value : values) {
        value = tensor.dtype == "int32" ? read<std::int32_t>(bytes)
                : tensor.bits == 32     ? read<std::uint32_t>(bytes)
                : tensor.bits == 64     ? read<std::int64_t>(bytes)
                : tensor.bits == 16     ? read<std::uint16_t>(bytes)
                                        : read<std::uint8_t>(bytes);
        bytes += tensor.bits / 8;
    }
    return values;
}

bool profile_allows(std::span<const TensorInfo> inputs, const CallShapes& call, int profile) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!input_allowed(inputs[i], call.shapes[i], call.values[i], static_cast<std::size_t>(profile))) {
            return false;
        }
    }
    return true;
}

void check_profile(std::optional<int> profile, int count) {
    if (profile && (*profile < 0 || *profile >= count)) {
        throw UsageProblem("Profile " + std::to_string(*profile) + " does not exist; the engine has " +
                           std::to_string(count) + ", counted from 0.");
    }
}

int choose_profile(std::span<const TensorInfo> inputs, const CallShapes& call, std::optional<int> fixed) {
    const std::size_t count = inputs.empty() ? 1 : inputs.front().profiles.size();
    check_profile(fixed, static_cast<int>(count));
    const std::size_t first = fixed ? static_cast<std::size_t>(*fixed) : 0;
    const std::size_t last = fixed ? first + 1 : count;
    std::optional<std::size_t> best;
    double best_volume = std::numeric_limits<double>::infinity();
    for (std::size_t p = first; p < last; ++p) {
        if (!profile_allows(inputs, call, static_cast<int>(p))) {
            continue;
        }
        if (is_optimum(inputs, call, p)) {
            return static_cast<int>(p);
        }
        const double volume_of_max = largest_volume(inputs, p);
        if (volume_of_max < best_volume) {
            best = p;
            best_volume = volume_of_max;
        }
    }
    if (!best) {
        throw UsageProblem(misfit(inputs, call, first, last));
    }
    return static_cast<int>(*best);
}

} // namespace trtw
