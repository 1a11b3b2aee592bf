// Work on arrays in host memory: copies that follow strides, and the search for NaN and infinity.
#pragma once

#include "trtw/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace trtw {

/// Rows of bytes in a row-major array, `pitch` apart.
struct Rows {
    std::size_t offset = 0;
    std::size_t width = 0;
    std::size_t pitch = 0;
    std::size_t count = 0;
};

/// Copies an array of any strides (in bytes, negative and zero ones too) into row-major order, whole or in pieces. What
/// lies side by side in memory is read together, so that a transposed array costs about what its bytes do.
class StridedCopy {
public:
    StridedCopy(const Shape& shape, std::span<const std::int64_t> strides, std::size_t element_bytes);

    /// Into how many pieces of about so many bytes it can be cut; 0 for an empty array.
    [[nodiscard]] std::size_t pieces(std::size_t piece_bytes) const;
    /// Copies one of `pieces` and returns where it lies in the target; different ones on different threads at once.
    Rows copy_piece(void* target, const void* source, std::size_t piece, std::size_t pieces) const;
    [[nodiscard]] Rows rows(std::size_t piece, std::size_t pieces) const;

private:
    struct Dim {
        std::int64_t size = 1;
        std::int64_t in = 0;  ///< bytes to the next one in the source
        std::int64_t out = 0; ///< and in the target
    };
    [[nodiscard]] std::size_t cut(std::size_t pieces) const;
    void copy(std::span<const Dim> dims, std::byte* out, const std::byte* in) const;
    void copy_tiles(const Dim& far, const Dim& near, std::byte* out, const std::byte* in) const;
    void copy_run(const Dim& dim, std::int64_t count, std::byte* out, const std::byte* in) const;

    std::size_t element_;
    std::size_t bytes_;
    std::vector<Dim> dims_; ///< those that lie farther apart in the source first
};

/// Copies the whole array on this thread.
void copy_strided(void* target, const void* source, const Shape& shape, std::span<const std::int64_t> strides,
                  std::size_t element_bytes);

/// The array in row-major order; no strides: it is so already.
std::vector<std::byte> packed(const void* source, const Shape& shape, std::span<const std::int64_t> strides,
                              std::size_t element_bytes);

/// Whether there is a stride (in bytes) for each dimension, and they describe row-major memory without gaps; those of
/// dimensions of size 1 do not matter.
bool is_contiguous(const Shape& shape, std::span<const std::int64_t> strides, std::size_t element_bytes);

/// How many elements are NaN or infinite. `dtype` is "float32", "float64", "float16" or "bfloat16"; other types hold
/// neither, so 0.
std::size_t count_nonfinite(const void* data, std::size_t elements, std::string_view dtype);

} // namespace trtw
