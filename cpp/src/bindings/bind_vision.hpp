// Images that Python hands over to be letterboxed.
#pragma once

#include "trtw/head.hpp"
#include "trtw/letterbox.hpp"
#include "trtw/tensor.hpp"

#include <pybind11/numpy.h>

#include <string>
#include <vector>

namespace trtw::bindings {

/// The value of one input: views of numpy arrays that this object keeps alive.
struct ImageBatch {
    std::vector<pybind11::array> arrays;
    std::vector<ImageView> views;
    LetterboxSpec spec;
};

/// Throws UsageProblem for an empty list or for an array that is no uint8 [H, W, 3].
ImageBatch image_batch(const pybind11::sequence& images, const LetterboxSpec& spec);

/// [count, 3, H, W] or [count, H, W, 3].
Shape batch_shape(std::size_t count, const LetterboxSpec& spec);

/// "float32", "float16" or "uint8".
std::string element_name(Element element);

/// (boxes, scores, labels) of each image, and what else the spec has: further values, and masks; None of one that is
/// odd.
pybind11::list boxes_of(const std::vector<FoundBoxes>& found, const HeadSpec& spec);

void bind_head(pybind11::module_& m);

} // namespace trtw::bindings
