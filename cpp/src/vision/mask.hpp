// Masks of boxes, which weigh planes: one source for CPU and GPU so that both give the same bits, which are numpy's.
#pragma once

#include "vision/head.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace trtw::head {

/// Words of an image's masks that there is room for at least; the more, the more values its planes have.
constexpr std::int64_t most_mask_words = 1 << 20;

/// Whole pixels of the input; the ends are not in it.
struct Region {
    int top;
    int bottom;
    int left;
    int right;
};

TRTW_HOST_DEVICE int edge(float place, float size) {
    return static_cast<int>(fminf(fmaxf(ceilf(place), 0.0F), size));
}

/// Those in a box, whose corners are finite.
TRTW_HOST_DEVICE Region region_of(const Head& head, const Box& box) {
    const int top = edge(box.y1, head.height);
    const int bottom = edge(box.y2, head.height);
    const int left = edge(box.x1, head.width);
    const int right = edge(box.x2, head.width);
    return {top, bottom > top ? bottom : top, left, right > left ? right : left};
}

TRTW_HOST_DEVICE int row_words(const Region& region) {
    return (region.right - region.left + 31) / 32;
}

TRTW_HOST_DEVICE std::int64_t word_count(const Region& region) {
    return std::int64_t{region.bottom - region.top} * row_words(region);
}

/// Words of an image's masks that there is room for; 0 of a head without planes.
inline std::int64_t mask_room(const Head& head) {
    if (head.planes.data == nullptr) {
        return 0;
    }
    const std::int64_t plane = std::int64_t{head.plane_height} * head.plane_width;
    const std::int64_t whole = word_count({0, static_cast<int>(head.height), 0, static_cast<int>(head.width)});
    const std::int64_t most = head.values * plane > most_mask_words ? head.values * plane : most_mask_words;
    return head.max_dets < most / whole + 1 ? head.max_dets * whole : most;
}

/// The two pixels of a plane that one of the input lies between, along one axis, and the second one's share.
struct PlaneTap {
    int low;
    int high;
    float weight;
};

TRTW_HOST_DEVICE PlaneTap plane_tap(int position, float size, int plane_size) {
    const float ratio = quotient(static_cast<float>(plane_size), size);
    const float place = fmaxf(product(static_cast<float>(position) + 0.5F, ratio) - 0.5F, 0.0F);
    const int last = plane_size - 1;
    const int low = static_cast<int>(place) < last ? static_cast<int>(place) : last;
    return {low, low < last ? low + 1 : last, place - static_cast<float>(low)};
}

TRTW_HOST_DEVICE float between(float low, float high, float weight) {
    return product(low, 1.0F - weight) + product(high, weight);
}

/// The sum of a pixel's values in all planes, each multiplied by its weight, in the order of the planes.
TRTW_HOST_DEVICE float weighed(const Head& head, int image, const float* weights, int pixel) {
    float sum = product(value(head.planes, image, 0, pixel), weights[0]);
    for (int plane = 1; plane < head.values; ++plane) {
        sum = sum + product(value(head.planes, image, plane, pixel), weights[plane]);
    }
    return sum;
}

/// On the CPU: whether all values of an image's planes are finite.
bool has_finite_planes(const Head& head, int image);

/// On the CPU: appends the masks of boxes of these items; false where there is no room for them.
bool add_masks(const Head& head, int image, std::span<const Box> boxes, std::span<const int> items,
               std::vector<std::uint32_t>& masks);

} // namespace trtw::head
