#include "trtw/vision/staging.hpp"

#include <cstring>

namespace trtw::vision {

DeviceImage stage(const ImageView& image, const LetterboxSpec& spec) {
    DeviceImage item;
    item.geometry = letterbox_geometry(image.height, image.width, spec);
    item.row_bytes = static_cast<std::int64_t>(image.width) * 3;
    item.row_ratio = resize_ratio(item.geometry.new_height, image.height);
    item.column_ratio = resize_ratio(item.geometry.new_width, image.width);
    item.taps_only = 2 * item.geometry.new_height < image.height; // a spec's sides are at most 32768
    return item;
}

int staged_rows(const DeviceImage& item) noexcept {
    return item.taps_only ? 2 * item.geometry.new_height : item.geometry.source_height;
}

int source_row(const DeviceImage& item, int staged) noexcept {
    if (!item.taps_only) {
        return staged;
    }
    const Tap tap = tap_at(staged / 2, item.row_ratio, item.geometry.source_height);
    return staged % 2 == 0 ? tap.first : tap.second;
}

void copy_rows(const ImageView& image, const DeviceImage& item, int first, int count, std::uint8_t* target) noexcept {
    const auto row = static_cast<std::size_t>(item.row_bytes);
    const bool tight = image.row_bytes == item.row_bytes;
    const int end = first + count;
    while (first < end) {
        const int source = source_row(item, first);
        int rows = 1; // that lie one behind the other in the source as well
        while (tight && first + rows < end && source_row(item, first + rows) == source + rows) {
            ++rows;
        }
        const std::size_t bytes = static_cast<std::size_t>(rows) * row;
        std::memcpy(target, image.pixels + source * image.row_bytes, bytes);
        target += bytes;
        first += rows;
    }
}

} // namespace trtw::vision
