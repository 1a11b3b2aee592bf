// Which rows of a decoded image travel to the device, and how the kernel finds them there. Needs no CUDA.
#pragma once

#include "vision/resample.hpp"

#include <cstddef>
#include <cstdint>

namespace trtw {

/// One image as the kernel sees it.
struct DeviceImage {
    const std::uint8_t* pixels = nullptr; ///< its first row, where the device reads it
    std::int64_t row_bytes = 0;
    double row_ratio = 1.0;    ///< source height / new height
    double column_ratio = 1.0; ///< source width / new width
    Geometry geometry;
    /// Only what rows of the result are made of is staged: staged rows 2r and 2r + 1 are the two taps of row r.
    bool taps_only = false;
};

/// Plans an image whose staged rows will lie one right behind the other; `pixels` is left to whoever has the memory.
/// Throws UsageProblem for an empty image.
DeviceImage stage(const ImageView& image, const LetterboxSpec& spec);

/// The plan of `stage` for an image that the kernel reads row by row where it lies; `pixels` is the device's address of
/// `image.pixels`.
DeviceImage in_place(DeviceImage item, const ImageView& image, const std::uint8_t* pixels) noexcept;

/// Whether some pixels are left out or averaged: then the kernel reads each of the rest about once.
bool shrinks(const DeviceImage& item) noexcept;

int staged_rows(const DeviceImage& item) noexcept;

/// The row of the source image that lies at row `staged` of the staged ones.
int source_row(const DeviceImage& item, int staged) noexcept;

/// Copies the staged rows `first` to `first + count - 1` to `target`, where the first of them is to lie.
void copy_rows(const ImageView& image, const DeviceImage& item, int first, int count, std::uint8_t* target) noexcept;

/// Grey levels, in the image's order, at (y, x) of the letterboxed image: what one thread of the kernel computes.
///
/// Host and device agree on rows and weights because `tap_at` gives both the same bits: it rounds after every step, so
/// no multiplication and addition can be fused. Where only taps are staged, the device computes no source row at all:
/// the host chose the rows, and their place follows from integers.
TRTW_HOST_DEVICE void grey_levels(const DeviceImage& image, int pad_value, int y, int x, int (&bgr)[3]) {
    const Geometry& g = image.geometry;
    const int inner_y = y - g.top;
    const int inner_x = x - g.left;
    if (inner_x < 0 || inner_x >= g.new_width || inner_y < 0 || inner_y >= g.new_height) {
        bgr[0] = bgr[1] = bgr[2] = pad_value;
        return;
    }
    const Tap column = tap_at(Axis::columns, inner_x, image.column_ratio, g.source_width);
    Tap row = tap_at(Axis::rows, inner_y, image.row_ratio, g.source_height);
    if (image.taps_only) {
        row.first = 2 * inner_y;
        row.second = 2 * inner_y + 1;
    }
    const std::uint8_t* top = image.pixels + row.first * image.row_bytes;
    const std::uint8_t* bottom = image.pixels + row.second * image.row_bytes;
    for (int c = 0; c < 3; ++c) {
        const int left = column.first * 3 + c;
        const int right = column.second * 3 + c;
        bgr[c] = blend(top[left], top[right], bottom[left], bottom[right], column, row);
    }
}

} // namespace trtw
