// What a detector's outputs say: which values are boxes, scores and classes, which count, and suppression. CPU
// reference.
#pragma once

#include "trtw/tensor.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace trtw {

enum class HeadKind : std::uint8_t {
    pairs, ///< every pair of item and class
    best,  ///< the best class of every item
    cells, ///< the same, multiplied by the item's objectness
    rows   ///< every item: it has one score and its class
};
enum class BoxForm : std::uint8_t {
    corners, ///< x1, y1, x2, y2 in pixels
    centre,  ///< centre and size in pixels
    shares   ///< centre and size in shares of the input
};
/// Of cells: centre and size in pixels, or offset in the cell and logarithm of the size in cells.
enum class HeadEncoding : std::uint8_t { by_value, raw, decoded };

/// output, first, step to the next item, step to the item's next value; see head_options.def.
using HeadPlace = std::array<std::int64_t, 4>;

/// How outputs of an engine become boxes. The arithmetic is that of the detector families of trt-workbench, to the bit.
struct HeadSpec {
    int height = 0; ///< of the input, in pixels
    int width = 0;
    int items = 0;   ///< rows, anchors, cells or queries of an image
    int classes = 0; ///< of kind rows 0 where it is not known
#define TRTW_OPTION(name, value, doc, ...) __VA_ARGS__ name = value;
#include "trtw/head_options.def"
#undef TRTW_OPTION

    /// Throws UsageProblem where a value makes no sense.
    void validate() const;
};

/// One output of a call.
struct HeadTensor {
    const void* data = nullptr;
    std::string dtype; ///< float32 or float16; classes also int32 or int64
    Shape shape;
};

struct FoundBox {
    std::array<float, 4> corners; ///< x1, y1, x2, y2 in pixels of the input
    float score;
    std::int32_t label;
};

/// The boxes of one image, best first, of equal scores in the order of the output.
struct FoundBoxes {
    std::vector<FoundBox> boxes;
    std::vector<float> more; ///< the spec's `values` of each box
    /// Where the spec has planes, a mask of each box: a bit for each whole pixel of the input in it, row by row, first
    /// pixel lowest; every row begins in a new word.
    std::vector<std::uint32_t> masks;
    /// Something that no detector gives, such as NaN or a score above 1, or more than there is room for: `boxes` is
    /// empty, and whoever reads the outputs themselves can say what it is.
    bool odd = false;
};

/// Reads outputs in host memory. Throws UsageProblem where they do not fit the spec.
std::vector<FoundBoxes> find_boxes_cpu(const HeadSpec& spec, std::span<const HeadTensor> outputs);

} // namespace trtw
