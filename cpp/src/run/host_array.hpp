// Work on arrays in host memory: copies that follow strides, and the search for NaN and infinity.
#pragma once

#include "trtw/tensor.hpp"

#include <cstddef>
#include <span>
#include <string_view>

namespace trtw {

/// Copies an array of any strides (in bytes, negative and zero ones too) into row-major order.
void copy_strided(void* target, const void* source, const Shape& shape, std::span<const std::int64_t> strides,
                  std::size_t element_bytes);

/// Whether strides (in bytes) describe row-major memory without gaps; strides of dimensions of size 1 do not matter.
bool is_contiguous(const Shape& shape, std::span<const std::int64_t> strides, std::size_t element_bytes);

/// How many elements are NaN or infinite. `dtype` is "float32", "float64", "float16" or "bfloat16"; other types hold
/// neither, so 0.
std::size_t count_nonfinite(const void* data, std::size_t elements, std::string_view dtype);

} // namespace trtw
