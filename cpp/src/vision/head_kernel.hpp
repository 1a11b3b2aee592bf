// The kernels of detector heads.
#pragma once

#include "vision/head.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>

namespace trtw::head {

/// What the kernels write for one image, behind it `max_dets` boxes, scores, labels, items, and further values of each.
struct alignas(16) ResultHeader {
    std::int32_t count;
    std::int32_t odd; ///< 1: nothing else is valid
    std::uint32_t mask_words;
    std::int32_t unused;
};

inline std::size_t result_bytes(int max_dets, int values) {
    constexpr std::size_t alignment = 16;
    const std::size_t one =
        sizeof(Box) + sizeof(float) + 2 * sizeof(std::int32_t) + static_cast<std::size_t>(values) * sizeof(float);
    const std::size_t boxes = static_cast<std::size_t>(max_dets) * one;
    return sizeof(ResultHeader) + (boxes + alignment - 1) / alignment * alignment;
}

/// Parts of a result.
struct Result {
    ResultHeader* header;
    Box* boxes;
    float* scores;
    std::int32_t* labels;
    std::int32_t* items;
    float* more;
};

TRTW_HOST_DEVICE Result result_at(void* results, std::size_t bytes, int max_dets, int image) {
    auto* begin = static_cast<unsigned char*>(results) + static_cast<std::size_t>(image) * bytes;
    auto* boxes = reinterpret_cast<Box*>(begin + sizeof(ResultHeader));
    auto* scores = reinterpret_cast<float*>(boxes + max_dets);
    auto* labels = reinterpret_cast<std::int32_t*>(scores + max_dets);
    auto* more = reinterpret_cast<float*>(labels + 2 * max_dets);
    return {reinterpret_cast<ResultHeader*>(begin), boxes, scores, labels, labels + max_dets, more};
}

/// Candidates found so far; zeros before the first call, and after every one.
struct Counter {
    std::uint32_t candidates;
    std::uint32_t odd;
};

/// Memory of the kernels, on the device but for `host`.
struct Room {
    Counter* counters;   ///< one an image
    std::uint64_t* keys; ///< `capacity` an image
    void* results;       ///< result_bytes an image
    void* host;          ///< the same, page-locked: where the results end
    std::uint32_t capacity;
    std::uint32_t* masks;      ///< `mask_words` an image
    std::uint32_t* host_masks; ///< the same, page-locked
    std::int64_t mask_words;
};

/// Of a head with planes: enqueues, before `find_kernel`, the check that their values are finite, and behind it the
/// masks.
void launch_check_of_planes(const Head& head, int images, const Room& room, cudaStream_t stream);
void launch_masks(const Head& head, int images, const Room& room, cudaStream_t stream);

/// Enqueues collecting, sorting and suppression of all images.
void launch_head(const Head& head, int images, const Room& room, cudaStream_t stream);

} // namespace trtw::head
