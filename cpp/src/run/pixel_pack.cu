// Channels last on the GPU: one thread a group of channels of a pixel.
#include "device/check.hpp"
#include "run/pixel_pack.hpp"

#include <algorithm>

namespace trtw {

namespace {

constexpr unsigned block_size = 256;
constexpr std::size_t most_blocks = std::size_t{1} << 20U; // a thread does several groups of larger arrays

__global__ void pack_pixels(const __grid_constant__ PixelPack pack) {
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * block_size;
    for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * block_size + threadIdx.x; i < pack.work; i += step) {
        pack_group(pack, i);
    }
}

} // namespace

void launch_pixel_pack(const PixelPack& pack, cudaStream_t stream) {
    if (pack.work == 0) {
        return;
    }
    const std::size_t blocks = std::min((pack.work + block_size - 1) / block_size, most_blocks);
    pack_pixels<<<static_cast<unsigned>(blocks), block_size, 0, stream>>>(pack);
    check_cuda(cudaGetLastError(), "kernel that puts the channels last");
}

} // namespace trtw
