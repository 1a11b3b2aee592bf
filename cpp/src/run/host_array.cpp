#include "run/host_array.hpp"

#include <cstdint>
#include <cstring>
#include <vector>

namespace trtw {

namespace {

// A floating-point number is NaN or infinite where all bits of its exponent are set. Plain loops over unsigned
// integers: compilers turn them into vector code.
template <class Word, Word exponent>
std::size_t count_words(const void* data, std::size_t elements) {
    const auto* bytes = static_cast<const std::byte*>(data);
    std::size_t total = 0;
    for (std::size_t i = 0; i < elements; ++i) {
        Word word; // the address of an array may be any
        std::memcpy(&word, bytes + i * sizeof(Word), sizeof(Word));
        total += static_cast<std::size_t>((word & exponent) == exponent);
    }
    return total;
}

// Dimensions from `first` on that form one gapless run; returns how many bytes that run holds.
std::size_t inner_run(const Shape& shape, std::span<const std::int64_t> strides, std::size_t element_bytes,
                      std::size_t& outer_dims) {
    auto run = static_cast<std::int64_t>(element_bytes);
    outer_dims = shape.size();
    std::int64_t longer = 0;
    while (outer_dims > 0 && (strides[outer_dims - 1] == run || shape[outer_dims - 1] == 1) &&
           !__builtin_mul_overflow(run, shape[outer_dims - 1], &longer)) {
        run = longer;
        --outer_dims;
    }
    return static_cast<std::size_t>(run);
}

} // namespace

bool is_contiguous(const Shape& shape, std::span<const std::int64_t> strides, std::size_t element_bytes) {
    if (volume(shape) == 0) {
        return true;
    }
    std::size_t outer_dims = 0;
    static_cast<void>(inner_run(shape, strides, element_bytes, outer_dims));
    return outer_dims == 0;
}

void copy_strided(void* target, const void* source, const Shape& shape, std::span<const std::int64_t> strides,
                  std::size_t element_bytes) {
    if (volume(shape) == 0) {
        return;
    }
    std::size_t dims = 0;
    const std::size_t run = inner_run(shape, strides, element_bytes, dims);
    auto* out = static_cast<std::byte*>(target);
    const auto* in = static_cast<const std::byte*>(source);
    std::vector<std::int64_t> index(dims, 0);
    while (true) {
        std::memcpy(out, in, run);
        out += run;
        std::size_t d = dims;
        while (d > 0) {
            --d;
            in += strides[d];
            if (++index[d] < shape[d]) {
                break;
            }
            in -= strides[d] * shape[d];
            index[d] = 0;
            if (d == 0) {
                return;
            }
        }
        if (dims == 0) {
            return;
        }
    }
}

std::size_t count_nonfinite(const void* data, std::size_t elements, std::string_view dtype) {
    if (dtype == "float32") {
        return count_words<std::uint32_t, 0x7F800000U>(data, elements);
    }
    if (dtype == "float16") {
        return count_words<std::uint16_t, std::uint16_t{0x7C00U}>(data, elements);
    }
    if (dtype == "bfloat16") {
        return count_words<std::uint16_t, std::uint16_t{0x7F80U}>(data, elements);
    }
    if (dtype == "float64") {
        return count_words<std::uint64_t, std::uint64_t{0x7FF0000000000000U}>(data, elements);
    }
    return 0;
}

} // namespace trtw
