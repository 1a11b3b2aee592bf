#include "vision/head_gpu.hpp"

#include "device/check.hpp"
#include "vision/head_kernel.hpp"
#include "vision/mask.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace trtw {

namespace {

std::size_t aligned(std::size_t bytes) {
    constexpr std::size_t alignment = 256;
    return (bytes + alignment - 1) / alignment * alignment;
}

} // namespace

HeadGpu::HeadGpu(HeadSpec spec) : spec_{std::move(spec)} {
    spec_.validate();
}

bool HeadGpu::enqueue(std::span<const HeadTensor> outputs, cudaStream_t stream) {
    const auto [bound, images] = head::bind(spec_, outputs);
    const auto asked = static_cast<std::size_t>(images);
    const bool has_moved = asked > most_images_;
    const std::size_t count = has_moved ? std::bit_ceil(asked) : most_images_; // seldom moved by batches that grow
    head::Room room{};
    room.capacity = static_cast<std::uint32_t>(std::min<std::int64_t>(head::index_count(bound), head::most_candidates));
    const std::size_t counters = aligned(count * sizeof(head::Counter));
    const std::size_t keys = aligned(count * room.capacity * sizeof(std::uint64_t));
    const std::size_t results = aligned(count * head::result_bytes(spec_.max_dets, spec_.values));
    room.mask_words = head::mask_room(bound);
    const std::size_t masks = count * static_cast<std::size_t>(room.mask_words) * sizeof(std::uint32_t);
    if (has_moved) {
        host_.reserve(results + masks);
        device_.reserve(counters + keys + results + masks);
        TRTW_CUDA(cudaMemsetAsync(device_.data(), 0, counters, stream));
        most_images_ = count;
        mask_words_ = room.mask_words;
    }
    auto* begin = static_cast<unsigned char*>(device_.data());
    room.counters = reinterpret_cast<head::Counter*>(begin);
    room.keys = reinterpret_cast<std::uint64_t*>(begin + counters);
    room.results = begin + counters + keys;
    room.masks = reinterpret_cast<std::uint32_t*>(begin + counters + keys + results);
    room.host = host_.data();
    room.host_masks = this->masks();
    head::launch_head(bound, images, room, stream);
    return has_moved;
}

std::uint32_t* HeadGpu::masks() const {
    const std::size_t results = most_images_ * head::result_bytes(spec_.max_dets, spec_.values);
    return reinterpret_cast<std::uint32_t*>(static_cast<unsigned char*>(host_.data()) + aligned(results));
}

std::vector<FoundBoxes> HeadGpu::found(int images) const {
    const std::size_t bytes = head::result_bytes(spec_.max_dets, spec_.values);
    std::vector<FoundBoxes> all;
    for (int image = 0; image < images; ++image) {
        const head::Result result = head::result_at(host_.data(), bytes, spec_.max_dets, image);
        FoundBoxes& one = all.emplace_back();
        one.odd = result.header->odd != 0;
        for (int at = 0; at < result.header->count; ++at) {
            const head::Box& box = result.boxes[at];
            one.boxes.push_back({{box.x1, box.y1, box.x2, box.y2}, result.scores[at], result.labels[at]});
        }
        one.more.assign(result.more, result.more + std::ptrdiff_t{result.header->count} * spec_.values);
        const std::uint32_t* first = masks() + mask_words_ * image;
        one.masks.assign(first, first + result.header->mask_words);
    }
    return all;
}

} // namespace trtw
