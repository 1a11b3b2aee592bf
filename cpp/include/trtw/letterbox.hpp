// Letterbox: resize with the aspect ratio kept, pad, normalise, reorder channels and memory. CPU reference.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace trtw {

enum class Placement : std::uint8_t { centre, top_left, stretch };
enum class Rounding : std::uint8_t { nearest, down };
enum class Layout : std::uint8_t { nchw, nhwc, hwc8 };
enum class Channels : std::uint8_t { rgb, bgr };
enum class Element : std::uint8_t { float32, float16, uint8 };
using PerChannel = std::array<double, 3>;

/// Values of a pixel in memory; what is beyond its three channels is zero.
constexpr int pixel_values(Layout layout) noexcept {
    return layout == Layout::hwc8 ? 8 : 3;
}

constexpr std::size_t element_bytes(Element element) noexcept {
    return element == Element::float32 ? 4 : element == Element::float16 ? 2 : 1;
}

/// How a decoded image becomes one item of a model's input tensor.
/// A grey level v of channel c becomes (v * scale - mean[c]) / std[c], in float32 as one multiplication and one
/// addition; mean and std follow `channels`. As uint8 the grey levels stay as they are.
struct LetterboxSpec {
    int height = 0;
    int width = 0;
#define TRTW_OPTION(name, value, doc, ...) __VA_ARGS__ name = value;
#include "trtw/letterbox_options.def"
#undef TRTW_OPTION

    [[nodiscard]] std::size_t item_bytes() const noexcept {
        return static_cast<std::size_t>(height) * static_cast<std::size_t>(width) *
               static_cast<std::size_t>(pixel_values(layout)) * element_bytes(dtype);
    }
    /// Throws UsageProblem where a value makes no sense.
    void validate() const;
};

/// Where an image of `source` size lands: x_dst = x_src * (new_width / source_width) + left, likewise y.
struct Geometry {
    int source_height = 0;
    int source_width = 0;
    int new_height = 0;
    int new_width = 0;
    int top = 0;
    int left = 0;
};

/// Throws UsageProblem for an empty image.
Geometry letterbox_geometry(int source_height, int source_width, const LetterboxSpec& spec);

/// A decoded image: 8 bits, three channels in the order blue, green, red, rows `row_bytes` apart.
struct ImageView {
    const std::uint8_t* pixels = nullptr;
    int height = 0;
    int width = 0;
    std::ptrdiff_t row_bytes = 0;
    int device = -1; ///< the GPU whose memory holds the pixels; -1: they are in host memory
};

/// Writes one item of `spec.item_bytes()` bytes. Resizing follows OpenCV's 8-bit INTER_LINEAR: half-pixel centres,
/// weights of 11 bits, the result an 8-bit grey level, which is then normalised.
void letterbox_cpu(const ImageView& image, const LetterboxSpec& spec, void* output);

} // namespace trtw
