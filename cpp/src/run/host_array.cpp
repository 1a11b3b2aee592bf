#include "run/host_array.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <type_traits>

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

constexpr std::int64_t cache_line = 64;
constexpr std::int64_t tile_bytes = 16 << 10; // half of the first cache
constexpr std::int64_t shortest_run = 16;
constexpr std::size_t least_row = 4096; // of a piece: the device copies short rows slowly

// The size is known when this is compiled, so that an element is one load, and several of them are one store.
template <std::size_t size>
void copy_elements(std::byte* out, std::int64_t out_step, const std::byte* in, std::int64_t in_step,
                   std::int64_t count) {
    constexpr std::int64_t step = size;
    constexpr std::int64_t together = 8;
    std::int64_t i = 0;
    if (out_step == step) {
        std::array<std::byte, together * size> several;
        for (; i + together <= count; i += together) {
            for (std::size_t k = 0; k < together; ++k) {
                std::memcpy(&several[k * size], in + (i + static_cast<std::int64_t>(k)) * in_step, size);
            }
            std::memcpy(out + i * step, several.data(), several.size());
        }
    }
    for (; i < count; ++i) {
        std::memcpy(out + i * out_step, in + i * in_step, size);
    }
}

// Pixels of three channels into three planes: each is read once, and compilers turn this into vector code.
template <std::size_t size>
void copy_pixels(std::byte* __restrict first, std::byte* __restrict second, std::byte* __restrict third,
                 const std::byte* __restrict in, std::int64_t count) {
    constexpr std::int64_t step = size;
    for (std::int64_t i = 0; i < count; ++i) {
        std::memcpy(first + i * step, in + 3 * i * step, size);
        std::memcpy(second + i * step, in + (3 * i + 1) * step, size);
        std::memcpy(third + i * step, in + (3 * i + 2) * step, size);
    }
}

// Calls a function of the element's size, where that is one of numpy's own.
template <class Function>
bool with_size(std::size_t size, Function&& function) {
    switch (size) {
    case 1:
        return function(std::integral_constant<std::size_t, 1>{}), true;
    case 2:
        return function(std::integral_constant<std::size_t, 2>{}), true;
    case 4:
        return function(std::integral_constant<std::size_t, 4>{}), true;
    case 8:
        return function(std::integral_constant<std::size_t, 8>{}), true;
    default:
        return false;
    }
}

} // namespace

bool is_contiguous(const Shape& shape, std::span<const std::int64_t> strides, std::size_t element_bytes) {
    if (strides.size() != shape.size()) {
        return false;
    }
    if (volume(shape) == 0) {
        return true;
    }
    auto run = static_cast<std::int64_t>(element_bytes);
    for (std::size_t d = shape.size(); d > 0; --d) {
        if (shape[d - 1] != 1 && strides[d - 1] != run) {
            return false;
        }
        if (__builtin_mul_overflow(run, shape[d - 1], &run)) {
            return false;
        }
    }
    return true;
}

StridedCopy::StridedCopy(const Shape& shape, std::span<const std::int64_t> strides, std::size_t element_bytes)
    : element_{element_bytes}, bytes_{static_cast<std::size_t>(volume(shape)) * element_bytes} {
    if (bytes_ == 0) {
        return;
    }
    auto out = static_cast<std::int64_t>(element_bytes);
    for (std::size_t d = shape.size(); d > 0; --d) {
        const Dim dim{shape[d - 1], strides[d - 1], out};
        out *= dim.size;
        if (dim.size == 1) {
            continue;
        }
        if (!dims_.empty() && dim.in == dims_.back().in * dims_.back().size) {
            dims_.back().size *= dim.size; // one dimension in both arrays
        } else {
            dims_.push_back(dim);
        }
    }
    std::ranges::reverse(dims_);
    std::ranges::stable_sort(dims_, std::greater{}, [](const Dim& dim) { return std::abs(dim.in); });
    if (dims_.empty()) {
        dims_.push_back({1, out, out});
    }
}

std::size_t StridedCopy::pieces(std::size_t piece_bytes) const {
    if (bytes_ == 0) {
        return 0;
    }
    const std::size_t wanted = (bytes_ + piece_bytes - 1) / piece_bytes;
    return std::min(wanted, static_cast<std::size_t>(dims_[cut(wanted)].size));
}

// The dimension to cut: far apart in the source, and in the target such that the rows of a piece stay long.
std::size_t StridedCopy::cut(std::size_t pieces) const {
    const auto whole = [this](const Dim& dim) { return static_cast<std::size_t>(dim.size * dim.out) == bytes_; };
    for (std::size_t d = 0; d < dims_.size(); ++d) {
        const std::size_t share = static_cast<std::size_t>(dims_[d].size) / pieces;
        if (share > 0 && (whole(dims_[d]) || share * static_cast<std::size_t>(dims_[d].out) >= least_row)) {
            return d;
        }
    }
    return static_cast<std::size_t>(std::ranges::find_if(dims_, whole) - dims_.begin());
}

Rows StridedCopy::rows(std::size_t piece, std::size_t pieces) const {
    const Dim& dim = dims_[cut(pieces)];
    const auto size = static_cast<std::size_t>(dim.size);
    const auto out = static_cast<std::size_t>(dim.out);
    const std::size_t first = size * piece / pieces;
    const std::size_t end = size * (piece + 1) / pieces;
    return {first * out, (end - first) * out, size * out, bytes_ / (size * out)};
}

Rows StridedCopy::copy_piece(void* target, const void* source, std::size_t piece, std::size_t pieces) const {
    const Rows place = rows(piece, pieces);
    std::vector<Dim> dims = dims_;
    Dim& dim = dims[cut(pieces)];
    dim.size = static_cast<std::int64_t>(place.width) / dim.out;
    copy(dims, static_cast<std::byte*>(target) + place.offset,
         static_cast<const std::byte*>(source) + static_cast<std::int64_t>(place.offset) / dim.out * dim.in);
    return place;
}

void StridedCopy::copy(std::span<const Dim> dims, std::byte* out, const std::byte* in) const {
    if (dims.size() == 1) {
        copy_run(dims[0], dims[0].size, out, in);
    } else if (dims.size() == 2) {
        copy_tiles(dims[0], dims[1], out, in);
    } else {
        for (std::int64_t i = 0; i < dims[0].size; ++i) {
            copy(dims.subspan(1), out + i * dims[0].out, in + i * dims[0].in);
        }
    }
}

// What one run leaves in the cache of the lines that it reads, the next ones of its tile find there.
void StridedCopy::copy_tiles(const Dim& far, const Dim& near, std::byte* out, const std::byte* in) const {
    const auto element = static_cast<std::int64_t>(element_);
    if (near.in == element && near.out == element) {
        for (std::int64_t i = 0; i < far.size; ++i) {
            copy_run(near, near.size, out + i * far.out, in + i * far.in);
        }
        return;
    }
    if (near.size == 3 && near.in == element && far.in == 3 * element && far.out == element &&
        with_size(element_,
                  [&](auto size) { copy_pixels<size>(out, out + near.out, out + 2 * near.out, in, far.size); })) {
        return;
    }
    const bool along_far = far.size >= std::min(near.size, shortest_run);
    const Dim& inner = along_far ? far : near;
    const Dim& outer = along_far ? near : far;
    const std::int64_t tile = std::max(shortest_run, tile_bytes / std::max(cache_line, std::abs(inner.in)));
    for (std::int64_t first = 0; first < inner.size; first += tile) {
        const std::int64_t count = std::min(tile, inner.size - first);
        for (std::int64_t o = 0; o < outer.size; ++o) {
            copy_run(inner, count, out + first * inner.out + o * outer.out, in + first * inner.in + o * outer.in);
        }
    }
}

void StridedCopy::copy_run(const Dim& dim, std::int64_t count, std::byte* out, const std::byte* in) const {
    const auto element = static_cast<std::int64_t>(element_);
    if (dim.in == element && dim.out == element) {
        std::memcpy(out, in, static_cast<std::size_t>(count) * element_);
        return;
    }
    const bool known = with_size(element_, [&](auto size) { copy_elements<size>(out, dim.out, in, dim.in, count); });
    for (std::int64_t i = 0; !known && i < count; ++i) {
        std::memcpy(out + i * dim.out, in + i * dim.in, element_);
    }
}

void copy_strided(void* target, const void* source, const Shape& shape, std::span<const std::int64_t> strides,
                  std::size_t element_bytes) {
    const StridedCopy copy{shape, strides, element_bytes};
    if (copy.pieces(1) > 0) {
        copy.copy_piece(target, source, 0, 1);
    }
}

std::vector<std::byte> packed(const void* source, const Shape& shape, std::span<const std::int64_t> strides,
                              std::size_t element_bytes) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(volume(shape)) * element_bytes);
    if (!strides.empty()) {
        copy_strided(bytes.data(), source, shape, strides, element_bytes);
    } else if (!bytes.empty()) {
        std::memcpy(bytes.data(), source, bytes.size());
    }
    return bytes;
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
