// The arithmetic of detector heads, one source for CPU and GPU so that both give the same bits, which are numpy's.
#pragma once

#include "device/host_device.hpp"
#include "trtw/head.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace trtw::head {

constexpr int most_levels = 4;
/// Candidates of an image that there is room for at most.
constexpr std::uint32_t most_candidates = 1U << 16U;

/// Of an item, without its box, scores and class.
constexpr int most_values = 1024;

enum class Number : std::uint8_t { float32, float16, int32, int64 };

/// A place in an output of a call.
struct Source {
    const void* data;
    std::int64_t image; ///< step to the next image
    std::int64_t first;
    std::int64_t item;
    std::int64_t inner;
    Number number;
};

/// Cells of one stride: they lie row by row from index `first` on.
struct Level {
    int first;
    int columns;
    int stride;
};

/// A spec with the outputs of a call, as kernels take it.
struct Head {
    Source boxes;
    Source scores;
    Source objectness;
    Source labels;
    Source background; ///< without data where there is none
    Source more;       ///< the same
    Source planes;     ///< the same
    HeadKind kind;
    BoxForm form;
    HeadEncoding sizes;
    bool label_major;
    bool logits;
    bool suppresses;
    int items;
    int classes;
    int values;
    int plane_height;
    int plane_width;
    int levels;
    Level level[most_levels];
    float height;
    float width;
    float conf;
    float iou;
    int most;
    int max_dets;
};

struct Box {
    float x1;
    float y1;
    float x2;
    float y2;
};

// ---- single roundings, whatever a compiler would like to fuse -----------------------------------------------------

TRTW_HOST_DEVICE float product(float a, float b) {
#ifdef __CUDA_ARCH__
    return __fmul_rn(a, b);
#else
    const volatile float result = a * b;
    return result;
#endif
}

TRTW_HOST_DEVICE double product(double a, double b) {
#ifdef __CUDA_ARCH__
    return __dmul_rn(a, b);
#else
    const volatile double result = a * b;
    return result;
#endif
}

TRTW_HOST_DEVICE float fused(float a, float b, float c) {
#ifdef __CUDA_ARCH__
    return __fmaf_rn(a, b, c);
#else
    return std::fma(a, b, c);
#endif
}

TRTW_HOST_DEVICE float quotient(float a, float b) {
#ifdef __CUDA_ARCH__
    return __fdiv_rn(a, b);
#else
    return a / b;
#endif
}

TRTW_HOST_DEVICE std::uint32_t bits_of(float value) {
#ifdef __CUDA_ARCH__
    return __float_as_uint(value);
#else
    return std::bit_cast<std::uint32_t>(value);
#endif
}

TRTW_HOST_DEVICE float of_bits(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
    return __uint_as_float(bits);
#else
    return std::bit_cast<float>(bits);
#endif
}

TRTW_HOST_DEVICE bool is_finite(float value) {
    return (bits_of(value) & 0x7F800000U) != 0x7F800000U;
}

/// numpy's exponential of float32 where the processor has fused multiplication and addition (AVX2, AVX-512): of
/// finite arguments the same bits; their own libraries differ in the last ones.
TRTW_HOST_DEVICE float exponential(float x) {
    if (x >= 88.72283935546875F) {
        return of_bits(0x7F800000U);
    }
    if (x <= -103.97208404541015625F) {
        return 0.0F;
    }
    // to the nearest whole number
    constexpr float magic = 0x1.8p+23F;
#ifdef __CUDA_ARCH__
    const float power = __fadd_rn(__fadd_rn(product(x, 1.4426950408889634F), magic), -magic);
#else
    const volatile float shifted = product(x, 1.4426950408889634F) + magic;
    const float power = shifted - magic;
#endif
    x = fused(power, -6.93145752e-1F, x);
    x = fused(power, -1.42860677e-6F, x);
    float above = fused(5.082762527590693718096e-04F, x, 6.757896990527504603057e-03F);
    above = fused(above, x, 5.114512081637298353406e-02F);
    above = fused(above, x, 2.473615434895520810817e-01F);
    above = fused(above, x, 7.257664613233124478488e-01F);
    above = fused(above, x, 9.999999999980870924916e-01F);
    float below = fused(2.159509375685829852307e-02F, x, -2.742335390411667452936e-01F);
    below = fused(below, x, 1.0F);
    return ldexpf(quotient(above, below), static_cast<int>(power));
}

TRTW_HOST_DEVICE float sigmoid(float x) {
    return quotient(1.0F, 1.0F + exponential(-x));
}

TRTW_HOST_DEVICE float half_to_float(std::uint16_t half) {
    const std::uint32_t sign = (half & 0x8000U) << 16U;
    const std::uint32_t magnitude = half & 0x7FFFU;
    if (magnitude >= 0x7C00U) {
        return of_bits(sign | 0x7F800000U | (magnitude & 0x03FFU) << 13U);
    }
    if (magnitude >= 0x0400U) {
        return of_bits(sign | ((magnitude << 13U) + 0x38000000U));
    }
    const float subnormal = static_cast<float>(magnitude) * 0x1p-24F;
    return of_bits(sign | bits_of(subnormal));
}

// ---- values ---------------------------------------------------------------------------------------------------------

TRTW_HOST_DEVICE std::int64_t place(const Source& source, int image, int item, int inner) {
    return image * source.image + source.first + item * source.item + inner * source.inner;
}

TRTW_HOST_DEVICE float value(const Source& source, int image, int item, int inner) {
    const std::int64_t at = place(source, image, item, inner);
    return source.number == Number::float32 ? static_cast<const float*>(source.data)[at]
                                            : half_to_float(static_cast<const std::uint16_t*>(source.data)[at]);
}

/// The class that a row names; negative where it is none.
TRTW_HOST_DEVICE std::int32_t named_class(const Head& head, int image, int item) {
    const Source& source = head.labels;
    const std::int64_t at = place(source, image, item, 0);
    constexpr std::int64_t beyond = 1 << 24; // where floats leave whole numbers out
    std::int64_t label = -1;
    if (source.number == Number::int64) {
        label = static_cast<const std::int64_t*>(source.data)[at];
    } else if (source.number == Number::int32) {
        label = static_cast<const std::int32_t*>(source.data)[at];
    } else {
        const float given = value(source, image, item, 0);
        if (!(given >= 0.0F && given < static_cast<float>(beyond)) || given != floorf(given)) {
            return -1;
        }
        label = static_cast<std::int64_t>(given);
    }
    const bool is_known = label >= 0 && label < beyond && (head.classes == 0 || label < head.classes);
    return is_known ? static_cast<std::int32_t>(label) : -1;
}

// ---- candidates -----------------------------------------------------------------------------------------------------

/// Ascending keys are descending scores, and of equal scores ascending indices.
TRTW_HOST_DEVICE std::uint64_t key_of(float score, std::uint32_t index) {
    return static_cast<std::uint64_t>(~bits_of(score)) << 32U | index;
}

TRTW_HOST_DEVICE float score_of(std::uint64_t key) {
    return of_bits(~static_cast<std::uint32_t>(key >> 32U));
}

struct Candidate {
    std::uint64_t key;
    bool is_one; ///< whether its score is high enough
    bool is_odd;
};

// A little less than the families' own slack: what lies between is for them to judge.
TRTW_HOST_DEVICE bool is_probability(float score) {
    return score >= -0.0009F && score <= 1.0009F; // false for NaN
}

/// How many indices `candidate` takes.
TRTW_HOST_DEVICE std::int64_t index_count(const Head& head) {
    return head.kind == HeadKind::pairs ? std::int64_t{head.items} * head.classes : head.items;
}

TRTW_HOST_DEVICE Candidate pair(const Head& head, int image, std::uint32_t index) {
    const auto items = static_cast<std::uint32_t>(head.items);
    const auto classes = static_cast<std::uint32_t>(head.classes);
    const int item = static_cast<int>(head.label_major ? index % items : index / classes);
    const int label = static_cast<int>(head.label_major ? index / items : index % classes);
    const float given = value(head.scores, image, item, label);
    const float score = head.logits ? sigmoid(given) : given;
    bool is_odd = head.logits ? !is_finite(given) : !is_probability(given);
    if (label == 0 && head.background.data != nullptr) {
        is_odd = is_odd || !is_finite(value(head.background, image, item, 0));
    }
    return {key_of(score, index), score > head.conf, is_odd};
}

TRTW_HOST_DEVICE Candidate best_class(const Head& head, int image, std::uint32_t index) {
    const int item = static_cast<int>(index);
    float objectness = 1.0F;
    if (head.kind == HeadKind::cells) {
        objectness = value(head.objectness, image, item, 0);
        // a product of probabilities is at most its first factor
        if (!(objectness >= head.conf)) {
            return {0, false, !is_probability(objectness)};
        }
    }
    bool is_odd = !is_probability(objectness);
    float best = value(head.scores, image, item, 0);
    int label = 0;
    is_odd = is_odd || !is_probability(best);
    for (int other = 1; other < head.classes; ++other) {
        const float score = value(head.scores, image, item, other);
        is_odd = is_odd || !is_probability(score);
        if (score > best) {
            best = score;
            label = other;
        }
    }
    const std::uint32_t place = index * static_cast<std::uint32_t>(head.classes) + static_cast<std::uint32_t>(label);
    if (head.kind == HeadKind::cells) {
        const float score = product(objectness, best);
        return {key_of(score, place), score >= head.conf, is_odd};
    }
    return {key_of(best, place), best > head.conf, is_odd};
}

TRTW_HOST_DEVICE Candidate row(const Head& head, int image, std::uint32_t index) {
    const int item = static_cast<int>(index);
    const float score = value(head.scores, image, item, 0);
    const bool is_one = score > head.conf;
    return {key_of(score, index), is_one, !is_probability(score) || (is_one && named_class(head, image, item) < 0)};
}

TRTW_HOST_DEVICE Candidate candidate(const Head& head, int image, std::uint32_t index) {
    switch (head.kind) {
    case HeadKind::pairs:
        return pair(head, image, index);
    case HeadKind::rows:
        return row(head, image, index);
    default:
        return best_class(head, image, index);
    }
}

TRTW_HOST_DEVICE int item_of(const Head& head, std::uint64_t key) {
    const auto index = static_cast<std::uint32_t>(key);
    if (head.kind == HeadKind::rows) {
        return static_cast<int>(index);
    }
    return static_cast<int>(head.label_major ? index % static_cast<std::uint32_t>(head.items)
                                             : index / static_cast<std::uint32_t>(head.classes));
}

TRTW_HOST_DEVICE std::int32_t label_of(const Head& head, int image, std::uint64_t key) {
    const auto index = static_cast<std::uint32_t>(key);
    if (head.kind == HeadKind::rows) {
        return named_class(head, image, static_cast<int>(index));
    }
    return static_cast<std::int32_t>(head.label_major ? index / static_cast<std::uint32_t>(head.items)
                                                      : index % static_cast<std::uint32_t>(head.classes));
}

/// Whether a query is surely of the last class only: of logits, that class is "no object" where most queries are.
TRTW_HOST_DEVICE bool is_of_the_last(const Head& head, int image, int item) {
    const float last = value(head.scores, image, item, head.classes - 1);
    if (!(last > 0.0F)) {
        return false;
    }
    float other = value(head.scores, image, item, 0);
    for (int label = 1; label < head.classes - 1; ++label) {
        other = fmaxf(other, value(head.scores, image, item, label));
    }
    return last > other + 3.0F;
}

// ---- boxes ----------------------------------------------------------------------------------------------------------

struct Cell {
    float x;
    float y;
    float stride;
};

TRTW_HOST_DEVICE Cell cell(const Head& head, int item) {
    int level = 0;
    while (level + 1 < head.levels && item >= head.level[level + 1].first) {
        ++level;
    }
    const Level& on = head.level[level];
    const int inside = item - on.first;
    return {static_cast<float>(inside % on.columns * on.stride), static_cast<float>(inside / on.columns * on.stride),
            static_cast<float>(on.stride)};
}

TRTW_HOST_DEVICE Box around(float x, float y, float width, float height) {
    const float across = product(width, 0.5F);
    const float down = product(height, 0.5F);
    return {x - across, y - down, x + across, y + down};
}

/// `raw` is of cells.
TRTW_HOST_DEVICE Box box_of(const Head& head, int image, int item, bool raw) {
    float x = value(head.boxes, image, item, 0);
    float y = value(head.boxes, image, item, 1);
    float width = value(head.boxes, image, item, 2);
    float height = value(head.boxes, image, item, 3);
    if (head.form == BoxForm::corners) {
        return {x, y, width, height};
    }
    if (head.form == BoxForm::shares) {
        x = product(x, head.width);
        y = product(y, head.height);
        width = product(width, head.width);
        height = product(height, head.height);
    } else if (raw) {
        const Cell on = cell(head, item);
        x = product(x, on.stride) + on.x;
        y = product(y, on.stride) + on.y;
        width = product(exponential(width), on.stride);
        height = product(exponential(height), on.stride);
    }
    return around(x, y, width, height);
}

TRTW_HOST_DEVICE bool is_finite(const Box& box) {
    return is_finite(box.x1) && is_finite(box.y1) && is_finite(box.x2) && is_finite(box.y2);
}

/// Whether what goes with a box is finite, too.
TRTW_HOST_DEVICE bool has_finite_values(const Head& head, int image, int item) {
    for (int at = 0; at < head.values; ++at) {
        if (!is_finite(value(head.more, image, item, at))) {
            return false;
        }
    }
    return true;
}

// ---- raw or decoded: by the medians of the centres' distances from nought and from their cells ----------------------

/// Every so many cells is looked at.
constexpr int sample_step = 11;

TRTW_HOST_DEVICE int sample_count(const Head& head) {
    return 2 * ((head.items + sample_step - 1) / sample_step);
}

/// The distance of the sampled value from nought, or from its cell, as bits whose order is that of the distances.
TRTW_HOST_DEVICE std::uint32_t distance(const Head& head, int image, int sample, bool from_cell) {
    const int item = sample / 2 * sample_step;
    float given = value(head.boxes, image, item, sample % 2);
    if (from_cell) {
        const Cell on = cell(head, item);
        given -= sample % 2 == 0 ? on.x : on.y;
    }
    return bits_of(given) & 0x7FFFFFFFU;
}

// ---- suppression ----------------------------------------------------------------------------------------------------

TRTW_HOST_DEVICE double common_side(double first, double first_size, double second, double second_size) {
    const bool is_first = first < second;
    const double low = is_first ? first : second;
    const double low_size = is_first ? first_size : second_size;
    const double high = is_first ? second : first;
    const double high_size = is_first ? second_size : first_size;
    if (low < 0.0 && low + low_size < high) {
        return 0.0;
    }
    const double side = low_size - (high - low);
    return side < high_size ? side : high_size;
}

/// OpenCV's `rectOverlap` of rectangles of doubles.
TRTW_HOST_DEVICE float overlap(const Box& a, const Box& b) {
    const double a_width = static_cast<double>(a.x2) - static_cast<double>(a.x1);
    const double a_height = static_cast<double>(a.y2) - static_cast<double>(a.y1);
    const double b_width = static_cast<double>(b.x2) - static_cast<double>(b.x1);
    const double b_height = static_cast<double>(b.y2) - static_cast<double>(b.y1);
    const double sum = product(a_width, a_height) + product(b_width, b_height);
    if (sum <= 2.220446049250313e-16) {
        return 1.0F;
    }
    double common = 0.0;
    if (a_width > 0.0 && a_height > 0.0 && b_width > 0.0 && b_height > 0.0) {
        const double width = common_side(a.x1, a_width, b.x1, b_width);
        const double height = common_side(a.y1, a_height, b.y1, b_height);
        common = width > 0.0 && height > 0.0 ? product(width, height) : 0.0;
    }
    return 1.0F - static_cast<float>(1.0 - common / (sum - common));
}

/// Whether boxes are apart, and neither so thin that its area could count as none: then they overlap by nothing.
TRTW_HOST_DEVICE bool are_apart(const Box& a, const Box& b) {
    constexpr float thin = 1e-3F;
    const bool are_wide = a.x2 - a.x1 > thin && a.y2 - a.y1 > thin && b.x2 - b.x1 > thin && b.y2 - b.y1 > thin;
    return are_wide && (a.x2 <= b.x1 || b.x2 <= a.x1 || a.y2 <= b.y1 || b.y2 <= a.y1);
}

/// Whether a better box of the same class drops another.
TRTW_HOST_DEVICE bool drops(const Head& head, const Box& better, const Box& other) {
    return !are_apart(better, other) && overlap(better, other) > head.iou;
}

/// The spec with the outputs of a call, and how many images these have.
struct Bound {
    Head head;
    int images;
};

/// Throws UsageProblem where outputs do not fit the spec.
Bound bind(const HeadSpec& spec, std::span<const HeadTensor> outputs);

/// What the kernels do, on the CPU.
FoundBoxes found_in(const Head& head, int image);

} // namespace trtw::head
