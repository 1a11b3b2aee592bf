// The arithmetic of the letterbox, one source for CPU and GPU so that both give the same bits.
#pragma once

#include "device/host_device.hpp"
#include "trtw/letterbox.hpp"

#include <cmath>
#include <cstdint>

namespace trtw {

/// The normalisation of a spec as v * factor[c] + offset[c].
struct Affine {
    float factor[3];
    float offset[3];
};

inline Affine affine(const LetterboxSpec& spec) noexcept {
    Affine result{};
    for (std::size_t c = 0; c < 3; ++c) {
        result.factor[c] = static_cast<float>(spec.scale / spec.std[c]);
        result.offset[c] = static_cast<float>(-spec.mean[c] / spec.std[c]);
    }
    return result;
}

/// Fractional bits of the interpolation weights (OpenCV: INTER_RESIZE_COEF_BITS).
constexpr int weight_bits = 11;
constexpr int weight_one = 1 << weight_bits;

/// The two source positions and weights of one output position along one axis.
struct Tap {
    int first;
    int second;
    int first_weight;
    int second_weight;
};

// A multiply and an add that no compiler may fuse: one rounding more or less would move a weight.
TRTW_HOST_DEVICE double centre_in_source(int position, double ratio) {
#ifdef __CUDA_ARCH__
    return __dadd_rn(__dmul_rn(__dadd_rn(position, 0.5), ratio), -0.5);
#else
    const volatile double product = (position + 0.5) * ratio;
    return product - 0.5;
#endif
}

/// Source size / new size in the rounding of OpenCV.
inline double resize_ratio(int new_size, int source_size) {
    return 1.0 / (static_cast<double>(new_size) / source_size);
}

enum class Axis : std::uint8_t { rows, columns };

/// `ratio` is that of `resize_ratio`. Beyond the image's edge OpenCV gives a column its whole weight, and a row both
/// parts, each of which is rounded.
TRTW_HOST_DEVICE Tap tap_at(Axis axis, int position, double ratio, int source_size) {
    const float centre = static_cast<float>(centre_in_source(position, ratio));
    const int below = static_cast<int>(floorf(centre));
    const int last = source_size - 1;
    const bool is_beyond = below < 0 || below >= last;
    const float fraction = is_beyond && axis == Axis::columns ? 0.0F : centre - static_cast<float>(below);
    const int first = below < 0 ? 0 : below < last ? below : last;
    const int second = below < 0 ? (axis == Axis::rows ? 0 : last > 0 ? 1 : 0) : below < last ? below + 1 : last;
    // Round half to even, as OpenCV's conversion to short does.
    return {first, second, static_cast<int>(rintf((1.0F - fraction) * weight_one)),
            static_cast<int>(rintf(fraction * weight_one))};
}

/// Interpolates four 8-bit neighbours; the shifts are those of OpenCV's vertical pass.
TRTW_HOST_DEVICE int blend(int top_left, int top_right, int bottom_left, int bottom_right, Tap x, Tap y) {
    const int top = top_left * x.first_weight + top_right * x.second_weight;
    const int bottom = bottom_left * x.first_weight + bottom_right * x.second_weight;
    return (((y.first_weight * (top >> 4)) >> 16) + ((y.second_weight * (bottom >> 4)) >> 16) + 2) >> 2;
}

/// value * factor + offset with a rounding after each step.
TRTW_HOST_DEVICE float normalise(int value, float factor, float offset) {
#ifdef __CUDA_ARCH__
    return __fadd_rn(__fmul_rn(static_cast<float>(value), factor), offset);
#else
    const volatile float scaled = static_cast<float>(value) * factor;
    return scaled + offset;
#endif
}

/// Index of channel c (in the tensor's order) of pixel (y, x) in one item.
TRTW_HOST_DEVICE std::size_t output_index(Layout layout, int height, int width, int channel, int y, int x) {
    const auto h = static_cast<std::size_t>(height);
    const auto w = static_cast<std::size_t>(width);
    const auto row = static_cast<std::size_t>(y);
    const auto column = static_cast<std::size_t>(x);
    const auto c = static_cast<std::size_t>(channel);
    return layout == Layout::nchw ? (c * h + row) * w + column
                                  : (row * w + column) * (layout == Layout::hwc8 ? 8 : 3) + c;
}

} // namespace trtw
