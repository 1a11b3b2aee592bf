#include "vision/mask.hpp"

#include <cstddef>

namespace trtw::head {

namespace {

/// Weighed planes where a region needs them.
struct Logits {
    int top;
    int left;
    int columns;
    std::vector<float> values;

    [[nodiscard]] float at(int row, int column) const {
        return values[static_cast<std::size_t>(row - top) * static_cast<std::size_t>(columns) +
                      static_cast<std::size_t>(column - left)];
    }
};

Logits logits_of(const Head& head, int image, const std::vector<float>& weights, const Region& region) {
    const int bottom = plane_tap(region.bottom - 1, head.height, head.plane_height).high;
    const int right = plane_tap(region.right - 1, head.width, head.plane_width).high;
    Logits found{plane_tap(region.top, head.height, head.plane_height).low,
                 plane_tap(region.left, head.width, head.plane_width).low,
                 0,
                 {}};
    found.columns = right - found.left + 1;
    for (int row = found.top; row <= bottom; ++row) {
        for (int column = found.left; column <= right; ++column) {
            found.values.push_back(weighed(head, image, weights.data(), row * head.plane_width + column));
        }
    }
    return found;
}

void add_mask(const Head& head, const Logits& logits, const Region& region, std::vector<std::uint32_t>& masks) {
    for (int y = region.top; y < region.bottom; ++y) {
        const PlaneTap row = plane_tap(y, head.height, head.plane_height);
        const std::size_t begin = masks.size();
        masks.resize(begin + static_cast<std::size_t>(row_words(region)));
        for (int x = region.left; x < region.right; ++x) {
            const PlaneTap column = plane_tap(x, head.width, head.plane_width);
            const float left = between(logits.at(row.low, column.low), logits.at(row.high, column.low), row.weight);
            const float right = between(logits.at(row.low, column.high), logits.at(row.high, column.high), row.weight);
            const auto bit = static_cast<std::uint32_t>(x - region.left);
            masks[begin + bit / 32] |= (between(left, right, column.weight) > 0.0F ? 1U : 0U) << bit % 32;
        }
    }
}

} // namespace

bool has_finite_planes(const Head& head, int image) {
    const int pixels = head.planes.data == nullptr ? 0 : head.plane_height * head.plane_width;
    for (int plane = 0; plane < head.values; ++plane) {
        for (int pixel = 0; pixel < pixels; ++pixel) {
            if (!is_finite(value(head.planes, image, plane, pixel))) {
                return false;
            }
        }
    }
    return true;
}

bool add_masks(const Head& head, int image, std::span<const Box> boxes, std::span<const int> items,
               std::vector<std::uint32_t>& masks) {
    std::int64_t words = 0;
    for (const Box& box : boxes) {
        words += word_count(region_of(head, box));
    }
    if (head.planes.data == nullptr || words > mask_room(head)) {
        return head.planes.data == nullptr;
    }
    for (std::size_t at = 0; at < boxes.size(); ++at) {
        const Region region = region_of(head, boxes[at]);
        std::vector<float> weights;
        for (int plane = 0; plane < head.values; ++plane) {
            weights.push_back(value(head.more, image, items[at], plane));
        }
        if (word_count(region) > 0) {
            add_mask(head, logits_of(head, image, weights, region), region, masks);
        }
    }
    return true;
}

} // namespace trtw::head
