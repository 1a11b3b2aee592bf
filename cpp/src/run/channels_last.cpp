#include "run/channels_last.hpp"

#include "run/pixel_pack.hpp"
#include "trtw/error.hpp"

#include <cstdint>

namespace trtw {

namespace {

std::size_t count(const Shape& shape, std::size_t first, std::size_t end) {
    return static_cast<std::size_t>(
        volume({shape.begin() + static_cast<std::ptrdiff_t>(first), shape.begin() + static_cast<std::ptrdiff_t>(end)}));
}

PixelPack pixel_pack(const TensorInfo& tensor, const Shape& shape, const void* source, void* target) {
    const std::size_t axis = channel_axis(shape);
    PixelPack pack;
    pack.source = source;
    pack.target = target;
    pack.items = count(shape, 0, axis);
    pack.channels = count(shape, axis, axis + 1);
    pack.pixels = count(shape, axis + 1, shape.size());
    pack.group = static_cast<std::uint32_t>(tensor.channel_group);
    pack.groups = (pack.channels + pack.group - 1) / pack.group;
    pack.bytes = static_cast<std::uint32_t>(tensor.bits / 8);
    pack.work = pack.items * pack.groups * pack.pixels;
    if (reinterpret_cast<std::uintptr_t>(source) % pack.bytes != 0) {
        throw UsageProblem("Input '" + tensor.name + "' lies at an address that is no multiple of its elements' size.");
    }
    return pack;
}

} // namespace

void pack_on_device(const TensorInfo& tensor, const Shape& shape, const void* source, void* target,
                    cudaStream_t stream) {
    launch_pixel_pack(pixel_pack(tensor, shape, source, target), stream);
}

void pack_on_host(const TensorInfo& tensor, const Shape& shape, const void* source, void* target) {
    const PixelPack pack = pixel_pack(tensor, shape, source, target);
    for (std::size_t i = 0; i < pack.work; ++i) {
        pack_group(pack, i);
    }
}

} // namespace trtw
