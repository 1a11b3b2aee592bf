#include "vision/staging.hpp"

#include <algorithm>
#include <cstring>

namespace trtw {

namespace {

// Rows that lie one behind the other in the source as well.
struct Run {
    const std::uint8_t* pixels = nullptr;
    int rows = 0;
    std::size_t bytes = 0;
};

Run run_at(const ImageView& image, const DeviceImage& item, int first, int end) noexcept {
    if (first == end) {
        return {};
    }
    const bool tight = image.row_bytes == item.row_bytes;
    const int source = source_row(item, first);
    int rows = 1;
    while (tight && first + rows < end && source_row(item, first + rows) == source + rows) {
        ++rows;
    }
    return {image.pixels + source * image.row_bytes, rows,
            static_cast<std::size_t>(rows) * static_cast<std::size_t>(item.row_bytes)};
}

constexpr std::size_t cache_line = 64;
constexpr std::size_t block_bytes = 4096;
constexpr std::ptrdiff_t narrow_gap = 1024;
constexpr std::size_t longest_short_run = std::size_t{24} << 10U; // two rows of 4096 pixels

// Asks for the next run while it copies this one: where one ends, processors do not foresee where the next begins.
// Blocks below a page were slower where it was tried, as was this for long runs; narrow gaps need none of it.
void copy_run(const Run& run, const Run& next, std::uint8_t* target) noexcept {
    if (next.bytes == 0 || next.pixels - (run.pixels + run.bytes) < narrow_gap || run.bytes > longest_short_run) {
        std::memcpy(target, run.pixels, run.bytes);
        return;
    }
    for (std::size_t begin = 0; begin < run.bytes; begin += block_bytes) {
        const std::size_t end = std::min(begin + block_bytes, run.bytes);
        for (std::size_t line = begin; line < std::min(end, next.bytes); line += cache_line) {
            __builtin_prefetch(next.pixels + line, 0, 2);
        }
        std::memcpy(target + begin, run.pixels + begin, end - begin);
    }
}

} // namespace

DeviceImage stage(const ImageView& image, const LetterboxSpec& spec) {
    DeviceImage item;
    item.geometry = letterbox_geometry(image.height, image.width, spec);
    item.row_bytes = static_cast<std::int64_t>(image.width) * 3;
    item.row_ratio = resize_ratio(item.geometry.new_height, image.height);
    item.column_ratio = resize_ratio(item.geometry.new_width, image.width);
    item.taps_only = 2 * item.geometry.new_height < image.height; // a spec's sides are at most 32768
    return item;
}

DeviceImage in_place(DeviceImage item, const ImageView& image, const std::uint8_t* pixels) noexcept {
    item.taps_only = false;
    item.row_bytes = image.row_bytes;
    item.pixels = pixels;
    return item;
}

bool shrinks(const DeviceImage& item) noexcept {
    const Geometry& g = item.geometry;
    return g.new_height < g.source_height || g.new_width < g.source_width;
}

int staged_rows(const DeviceImage& item) noexcept {
    return item.taps_only ? 2 * item.geometry.new_height : item.geometry.source_height;
}

int source_row(const DeviceImage& item, int staged) noexcept {
    if (!item.taps_only) {
        return staged;
    }
    const Tap tap = tap_at(Axis::rows, staged / 2, item.row_ratio, item.geometry.source_height);
    return staged % 2 == 0 ? tap.first : tap.second;
}

void copy_rows(const ImageView& image, const DeviceImage& item, int first, int count, std::uint8_t* target) noexcept {
    const int end = first + count;
    Run run = run_at(image, item, first, end);
    while (run.bytes > 0) {
        first += run.rows;
        const Run next = run_at(image, item, first, end);
        copy_run(run, next, target);
        target += run.bytes;
        run = next;
    }
}

} // namespace trtw
