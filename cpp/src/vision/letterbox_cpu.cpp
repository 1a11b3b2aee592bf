#include "trtw/letterbox.hpp"

#include "trtw/error.hpp"
#include "vision/half.hpp"
#include "vision/resample.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace trtw {

namespace {

std::vector<Tap> taps(Axis axis, int new_size, int source_size) {
    const double ratio = resize_ratio(new_size, source_size);
    std::vector<Tap> result;
    result.reserve(static_cast<std::size_t>(new_size));
    for (int position = 0; position < new_size; ++position) {
        result.push_back(tap_at(axis, position, ratio, source_size));
    }
    return result;
}

// What each of the 256 grey levels becomes, per channel of the tensor.
template <class T>
using LookUp = std::array<std::array<T, 256>, 3>;

template <class T>
T convert(float value);
template <>
float convert<float>(float value) {
    return value;
}
template <>
std::uint16_t convert<std::uint16_t>(float value) {
    return float_to_half(value);
}
template <>
std::uint8_t convert<std::uint8_t>(float value) {
    return static_cast<std::uint8_t>(value); // a grey level: the spec allows no normalisation
}

template <class T>
LookUp<T> look_up(const LetterboxSpec& spec) {
    const Affine normalisation = affine(spec);
    LookUp<T> table{};
    for (std::size_t c = 0; c < 3; ++c) {
        for (int v = 0; v < 256; ++v) {
            table[c][static_cast<std::size_t>(v)] =
                convert<T>(normalise(v, normalisation.factor[c], normalisation.offset[c]));
        }
    }
    return table;
}

template <class T>
class Writer {
public:
    Writer(const LetterboxSpec& spec, void* output)
        : spec_{spec}, table_{look_up<T>(spec)}, output_{static_cast<T*>(output)} {}

    void fill_with_padding() {
        for (int y = 0; y < spec_.height; ++y) {
            for (int x = 0; x < spec_.width; ++x) {
                put(y, x, {spec_.pad_value, spec_.pad_value, spec_.pad_value});
            }
        }
    }

    /// `bgr` are grey levels in the image's order.
    void put(int y, int x, const std::array<int, 3>& bgr) {
        for (std::size_t c = 0; c < 3; ++c) {
            const std::size_t source = spec_.channels == Channels::bgr ? c : 2 - c;
            output_[output_index(spec_.layout, spec_.height, spec_.width, static_cast<int>(c), y, x)] =
                table_[c][static_cast<std::size_t>(bgr[source])];
        }
    }

private:
    const LetterboxSpec& spec_;
    LookUp<T> table_;
    T* output_;
};

template <class T>
void letterbox_as(const ImageView& image, const LetterboxSpec& spec, void* output) {
    const Geometry geometry = letterbox_geometry(image.height, image.width, spec);
    const std::vector<Tap> columns = taps(Axis::columns, geometry.new_width, image.width);
    const std::vector<Tap> rows = taps(Axis::rows, geometry.new_height, image.height);
    Writer<T> writer{spec, output};
    if (spec.layout == Layout::hwc8) {
        std::memset(output, 0, spec.item_bytes());
    }
    writer.fill_with_padding();
    for (int y = 0; y < geometry.new_height; ++y) {
        const Tap row = rows[static_cast<std::size_t>(y)];
        const std::uint8_t* top = image.pixels + row.first * image.row_bytes;
        const std::uint8_t* bottom = image.pixels + row.second * image.row_bytes;
        for (int x = 0; x < geometry.new_width; ++x) {
            const Tap column = columns[static_cast<std::size_t>(x)];
            std::array<int, 3> bgr{};
            for (int c = 0; c < 3; ++c) {
                const int left = column.first * 3 + c;
                const int right = column.second * 3 + c;
                bgr[static_cast<std::size_t>(c)] =
                    blend(top[left], top[right], bottom[left], bottom[right], column, row);
            }
            writer.put(y + geometry.top, x + geometry.left, bgr);
        }
    }
}

// Python's round(): half to even.
int round_half_even(double value) {
    return static_cast<int>(std::nearbyint(value));
}

} // namespace

void LetterboxSpec::validate() const {
    if (height < 1 || width < 1 || height > 1 << 15 || width > 1 << 15) {
        throw UsageProblem("A letterbox needs a height and a width of 1 to 32768 pixels; got " +
                           std::to_string(height) + "x" + std::to_string(width) + ".");
    }
    if (pad_value < 0 || pad_value > 255) {
        throw UsageProblem("The pad value must be a grey level of 0 to 255; got " + std::to_string(pad_value) + ".");
    }
    if (std::any_of(std.begin(), std.end(), [](double s) { return s == 0.0 || !std::isfinite(s); }) ||
        !std::all_of(mean.begin(), mean.end(), [](double m) { return std::isfinite(m); }) || !std::isfinite(scale)) {
        throw UsageProblem("Scale, mean and std of a letterbox must be finite, and std must not be 0.");
    }
    if (dtype == Element::uint8) {
        const Affine normalisation = affine(*this);
        for (std::size_t c = 0; c < 3; ++c) {
            if (normalisation.factor[c] != 1.0F || normalisation.offset[c] != 0.0F) {
                throw UsageProblem("A uint8 input tensor holds unscaled grey levels; set scale 1, mean 0 and "
                                   "std 1.");
            }
        }
    }
}

Geometry letterbox_geometry(int source_height, int source_width, const LetterboxSpec& spec) {
    constexpr int most = 1 << 28; // three channels of a row are counted in 32 bits
    if (source_height < 1 || source_width < 1 || source_height > most || source_width > most) {
        throw UsageProblem("An image has sides of 1 to " + std::to_string(most) + " pixels; got " +
                           std::to_string(source_height) + "x" + std::to_string(source_width) + ".");
    }
    if (spec.placement == Placement::stretch) {
        return {.source_height = source_height,
                .source_width = source_width,
                .new_height = spec.height,
                .new_width = spec.width};
    }
    double ratio =
        std::min(static_cast<double>(spec.height) / source_height, static_cast<double>(spec.width) / source_width);
    if (!spec.scale_up) {
        ratio = std::min(ratio, 1.0);
    }
    Geometry geometry;
    geometry.source_height = source_height;
    geometry.source_width = source_width;
    const auto side = [&](int source, int target) {
        const double scaled = source * ratio;
        return std::clamp(spec.rounding == Rounding::nearest ? round_half_even(scaled) : static_cast<int>(scaled), 1,
                          target);
    };
    geometry.new_height = side(source_height, spec.height);
    geometry.new_width = side(source_width, spec.width);
    if (spec.placement == Placement::centre) {
        // The odd pixel of padding goes to the bottom and the right.
        geometry.top = std::max(round_half_even((spec.height - geometry.new_height) / 2.0 - 0.1), 0);
        geometry.left = std::max(round_half_even((spec.width - geometry.new_width) / 2.0 - 0.1), 0);
    }
    return geometry;
}

void letterbox_cpu(const ImageView& image, const LetterboxSpec& spec, void* output) {
    spec.validate();
    switch (spec.dtype) {
    case Element::float32:
        return letterbox_as<float>(image, spec, output);
    case Element::float16:
        return letterbox_as<std::uint16_t>(image, spec, output);
    case Element::uint8:
        return letterbox_as<std::uint8_t>(image, spec, output);
    }
}

} // namespace trtw
