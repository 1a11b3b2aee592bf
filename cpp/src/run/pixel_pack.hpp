// Row-major arrays brought into formats that have the channels last, as an engine may want its images.
#pragma once

#include "device/host_device.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace trtw {

/// [items, channels, pixels] becomes [items, pixels, groups of channels]; what the last group lacks is zero.
struct PixelPack {
    const void* source = nullptr;
    void* target = nullptr;
    std::size_t items = 0;
    std::size_t channels = 0;
    std::size_t pixels = 0;
    std::size_t groups = 0;  ///< of a pixel
    std::uint32_t group = 1; ///< channels of one: 1 or 8
    std::uint32_t bytes = 1; ///< of an element: 1, 2 or 4
    std::size_t work = 0;    ///< groups in all
};

template <class Word, std::uint32_t size>
TRTW_HOST_DEVICE void pack_group_as(const PixelPack& pack, std::size_t index) {
    struct alignas(sizeof(Word) * size) Group {
        Word values[size];
    };
    const std::size_t pixel = index % pack.pixels; // so that neighbours in a warp read what lies side by side
    const std::size_t rest = index / pack.pixels;
    const std::size_t item = rest / pack.groups;
    const std::size_t group = rest % pack.groups;
    const Word* in = static_cast<const Word*>(pack.source) + item * pack.channels * pack.pixels + pixel;
    Group out;
    for (std::uint32_t c = 0; c < size; ++c) {
        const std::size_t channel = group * size + c;
        out.values[c] = channel < pack.channels ? in[channel * pack.pixels] : Word{0};
    }
    static_cast<Group*>(pack.target)[(item * pack.pixels + pixel) * pack.groups + group] = out;
}

template <class Word>
TRTW_HOST_DEVICE void pack_group_of(const PixelPack& pack, std::size_t index) {
    if (pack.group == 8) {
        pack_group_as<Word, 8>(pack, index);
    } else {
        pack_group_as<Word, 1>(pack, index);
    }
}

/// Writes one of `work` groups.
TRTW_HOST_DEVICE void pack_group(const PixelPack& pack, std::size_t index) {
    switch (pack.bytes) {
    case 4:
        pack_group_of<std::uint32_t>(pack, index);
        break;
    case 2:
        pack_group_of<std::uint16_t>(pack, index);
        break;
    default:
        pack_group_of<std::uint8_t>(pack, index);
        break;
    }
}

/// Enqueues the kernel. Throws DeviceFailure, or ComponentMissing where the core was built without kernels.
void launch_pixel_pack(const PixelPack& pack, cudaStream_t stream);

} // namespace trtw
