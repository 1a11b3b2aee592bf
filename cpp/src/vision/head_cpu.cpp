#include "trtw/error.hpp"
#include "vision/head.hpp"
#include "vision/mask.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace trtw {

namespace head {

namespace {

Number number_of(const std::string& dtype, bool of_class) {
    if (dtype == "float32") {
        return Number::float32;
    }
    if (dtype == "float16") {
        return Number::float16;
    }
    if (of_class && (dtype == "int32" || dtype == "int64")) {
        return dtype == "int32" ? Number::int32 : Number::int64;
    }
    throw UsageProblem("Boxes are read from outputs of float32 and float16, not of " + dtype + ".");
}

class Binder {
public:
    Binder(const HeadSpec& spec, std::span<const HeadTensor> outputs) : spec_{spec}, outputs_{outputs} {}

    Source source(const HeadPlace& place, std::int64_t inner, bool of_class = false) {
        return source(place, spec_.items, inner, of_class);
    }

    Source source(const HeadPlace& place, std::int64_t items, std::int64_t inner, bool of_class) {
        const auto [output, first, item_step, inner_step] = place;
        if (output < 0 || output >= static_cast<std::int64_t>(outputs_.size())) {
            throw UsageProblem("There is no output " + std::to_string(output) + ", counted from 0.");
        }
        const HeadTensor& tensor = outputs_[static_cast<std::size_t>(output)];
        const std::int64_t images = tensor.shape.empty() ? 0 : tensor.shape.front();
        const std::int64_t size = images > 0 ? volume(tensor.shape) / images : 0;
        std::int64_t last = first;
        const auto add = [&last](std::int64_t count, std::int64_t step) { // whether it can be counted
            std::int64_t distance = 0;
            return !__builtin_mul_overflow(count, step, &distance) && !__builtin_add_overflow(last, distance, &last);
        };
        if (std::min({first, item_step, inner_step}) < 0 || !add(items - 1, item_step) || !add(inner - 1, inner_step) ||
            last >= size || images > 0x7FFF'FFFF || (images_ != 0 && images != images_)) {
            throw UsageProblem("Output " + std::to_string(output) + " has the shape " + bracketed(tensor.shape) +
                               ", in which the boxes of a detector do not lie as its head says.");
        }
        images_ = images;
        return {tensor.data, size, first, item_step, inner_step, number_of(tensor.dtype, of_class)};
    }

    [[nodiscard]] int images() const noexcept { return static_cast<int>(images_); }

private:
    const HeadSpec& spec_;
    std::span<const HeadTensor> outputs_;
    std::int64_t images_ = 0;
};

void set_levels(Head& head, const HeadSpec& spec) {
    int first = 0;
    for (const int stride : spec.strides) {
        head.level[head.levels++] = {first, spec.width / stride, stride};
        first += (spec.height / stride) * (spec.width / stride);
    }
}

} // namespace

Bound bind(const HeadSpec& spec, std::span<const HeadTensor> outputs) {
    Binder binder{spec, outputs};
    Head head{};
    const bool has_rows = spec.kind == HeadKind::rows;
    head.boxes = binder.source(spec.boxes, 4);
    head.scores = binder.source(spec.scores, has_rows ? 1 : spec.classes);
    head.objectness = spec.kind == HeadKind::cells ? binder.source(spec.objectness, 1) : Source{};
    head.labels = has_rows ? binder.source(spec.labels, 1, true) : Source{};
    head.background = spec.background[0] < 0 ? Source{} : binder.source(spec.background, 1);
    head.more = spec.values == 0 ? Source{} : binder.source(spec.more, spec.values);
    if (spec.planes[0] >= 0) {
        head.planes =
            binder.source(spec.planes, spec.values, std::int64_t{spec.plane_height} * spec.plane_width, false);
    }
    head.kind = spec.kind;
    head.form = spec.form;
    head.sizes = spec.sizes;
    head.label_major = spec.label_major;
    head.logits = spec.logits;
    head.suppresses = spec.iou.has_value();
    head.items = spec.items;
    head.classes = spec.classes;
    head.values = spec.values;
    head.plane_height = spec.plane_height;
    head.plane_width = spec.plane_width;
    set_levels(head, spec);
    head.height = static_cast<float>(spec.height);
    head.width = static_cast<float>(spec.width);
    head.conf = static_cast<float>(spec.conf);
    head.iou = static_cast<float>(spec.iou.value_or(0.0));
    head.most = spec.most;
    head.max_dets = spec.max_dets;
    return {head, binder.images()};
}

namespace {

// numpy's median of sampled distances; NaN where one of them is.
float median(const Head& head, int image, bool from_cell) {
    std::vector<float> distances;
    for (int sample = 0; sample < sample_count(head); ++sample) {
        distances.push_back(of_bits(distance(head, image, sample, from_cell)));
    }
    if (std::ranges::any_of(distances, [](float one) { return std::isnan(one); })) {
        return std::numeric_limits<float>::quiet_NaN();
    }
    std::ranges::sort(distances);
    const std::size_t half = distances.size() / 2;
    return (distances[half - 1] + distances[half]) / 2.0F;
}

bool is_raw(const Head& head, int image) {
    if (head.kind != HeadKind::cells || head.sizes != HeadEncoding::by_value) {
        return head.kind == HeadKind::cells && head.sizes == HeadEncoding::raw;
    }
    return median(head, image, false) < median(head, image, true);
}

bool are_of_the_last(const Head& head, int image) {
    int count = 0;
    for (int item = 0; head.logits && head.classes > 1 && item < head.items; ++item) {
        count += is_of_the_last(head, image, item) ? 1 : 0;
    }
    return 2 * count > head.items;
}

} // namespace

FoundBoxes found_in(const Head& head, int image) {
    std::vector<std::uint64_t> keys;
    for (std::int64_t index = 0; index < index_count(head); ++index) {
        const Candidate one = candidate(head, image, static_cast<std::uint32_t>(index));
        if (one.is_odd) {
            return {{}, {}, {}, true};
        }
        if (one.is_one) {
            keys.push_back(one.key);
        }
    }
    const bool raw = is_raw(head, image);
    const bool has_odd_box = std::ranges::any_of(keys, [&](std::uint64_t key) {
        const int item = item_of(head, key);
        return !is_finite(box_of(head, image, item, raw)) || !has_finite_values(head, image, item);
    });
    if (keys.size() > most_candidates || has_odd_box || are_of_the_last(head, image)) {
        return {{}, {}, {}, true};
    }
    std::ranges::sort(keys);
    if (head.most > 0 && keys.size() > static_cast<std::size_t>(head.most)) {
        keys.resize(static_cast<std::size_t>(head.most));
    }
    if (!has_finite_planes(head, image)) {
        return {{}, {}, {}, true};
    }
    FoundBoxes found;
    std::vector<Box> kept;
    std::vector<int> items;
    for (const std::uint64_t key : keys) {
        if (kept.size() == static_cast<std::size_t>(head.max_dets)) {
            break;
        }
        const std::int32_t label = label_of(head, image, key);
        const int item = item_of(head, key);
        const Box box = box_of(head, image, item, raw);
        bool is_kept = true;
        for (std::size_t k = 0; head.suppresses && is_kept && k < kept.size(); ++k) {
            is_kept = found.boxes[k].label != label || !drops(head, kept[k], box);
        }
        if (is_kept) {
            kept.push_back(box);
            items.push_back(item);
            found.boxes.push_back({{box.x1, box.y1, box.x2, box.y2}, score_of(key), label});
            for (int at = 0; at < head.values; ++at) {
                found.more.push_back(value(head.more, image, item, at));
            }
        }
    }
    if (!add_masks(head, image, kept, items, found.masks)) {
        return {{}, {}, {}, true};
    }
    return found;
}

} // namespace head

void HeadSpec::validate() const {
    const auto refuse_unless = [](bool is_right, const char* what) {
        if (!is_right) {
            throw UsageProblem(std::string{"A detector's head needs "} + what + ".");
        }
    };
    refuse_unless(height > 0 && width > 0, "the size of its input");
    refuse_unless(items > 0, "at least one item");
    refuse_unless(classes > 0 || (kind == HeadKind::rows && classes == 0), "at least one class");
    refuse_unless(std::int64_t{items} * std::max(classes, 1) <= 0x7FFF'FFFF, "at most 2^31 pairs of item and class");
    refuse_unless(conf >= 0.0 && conf < 1.0, "a score threshold from 0 to below 1");
    // what no product of probabilities is below would be sorted by its sign
    refuse_unless(kind != HeadKind::cells || conf > 0.0, "a score threshold above 0 where scores are multiplied");
    refuse_unless(!iou || (*iou > 0.0 && *iou <= 1.0), "an overlap above 0 and at most 1");
    refuse_unless(max_dets > 0 && most >= 0, "a positive number of boxes");
    refuse_unless(values >= 0 && values <= head::most_values, "at most 1024 further values of an item");
    const bool has_planes = planes[0] >= 0;
    refuse_unless(!has_planes || values > 0, "a further value for each of its planes");
    refuse_unless(!has_planes ||
                      (plane_height > 0 && plane_width > 0 && plane_height <= height && plane_width <= width),
                  "planes that are no larger than its input");
    refuse_unless(strides.size() <= head::most_levels, "at most 4 strides");
    std::int64_t cells = 0;
    for (const int stride : strides) {
        refuse_unless(stride > 0, "positive strides");
        cells += std::int64_t{height / stride} * (width / stride);
    }
    refuse_unless(kind != HeadKind::cells || cells == items, "as many items as its strides give cells");
}

std::vector<FoundBoxes> find_boxes_cpu(const HeadSpec& spec, std::span<const HeadTensor> outputs) {
    spec.validate();
    const auto [bound, images] = head::bind(spec, outputs);
    std::vector<FoundBoxes> found;
    for (int image = 0; image < images; ++image) {
        found.push_back(head::found_in(bound, image));
    }
    return found;
}

} // namespace trtw
