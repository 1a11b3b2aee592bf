// The fused letterbox kernel: resample, pad, normalise, reorder, convert.
#include "device/check.hpp"
#include "vision/letterbox_kernel.hpp"

#include <cuda_fp16.h>

#include <algorithm>
#include <cstddef>
#include <span>

namespace trtw {

namespace {

constexpr int block_width = 32;
constexpr int block_height = 8;

__device__ void store(float* output, std::size_t index, float value) {
    output[index] = value;
}
__device__ void store(__half* output, std::size_t index, float value) {
    output[index] = __float2half_rn(value);
}
__device__ void store(std::uint8_t* output, std::size_t index, float value) {
    output[index] = static_cast<std::uint8_t>(value); // a grey level: the spec allows no normalisation
}

/// They travel as a parameter of the launch: 2 KB of the 4 KB that all parameters may take.
constexpr std::size_t images_per_launch = 32;
struct Images {
    DeviceImage items[images_per_launch];
};

/// What the kernel needs of a spec.
struct Target {
    int height;
    int width;
    int pad_value;
    Layout layout;
    Channels channels;
    Affine normalisation;
};
static_assert(sizeof(Images) + sizeof(Target) + sizeof(void*) <= 4096);

/// Written at once.
template <class T>
struct alignas(8 * sizeof(T)) WidePixel {
    T values[8];
};

template <class T>
__global__ void letterbox_kernel(const __grid_constant__ Images images, Target spec, T* output) {
    const int x = static_cast<int>(blockIdx.x * block_width + threadIdx.x);
    const int y = static_cast<int>(blockIdx.y * block_height + threadIdx.y);
    if (x >= spec.width || y >= spec.height) {
        return;
    }
    int bgr[3];
    grey_levels(images.items[blockIdx.z], spec.pad_value, y, x, bgr);
    const bool is_wide = spec.layout == Layout::hwc8;
    WidePixel<T> pixel;
    T* item = output + static_cast<std::size_t>(blockIdx.z) * (is_wide ? 8 : 3) * spec.height * spec.width;
    for (int c = 0; c < 3; ++c) {
        const float value = normalise(bgr[spec.channels == Channels::bgr ? c : 2 - c], spec.normalisation.factor[c],
                                      spec.normalisation.offset[c]);
        if (is_wide) {
            store(pixel.values, c, value);
        } else {
            store(item, output_index(spec.layout, spec.height, spec.width, c, y, x), value);
        }
    }
    if (is_wide) {
        for (int c = 3; c < 8; ++c) {
            store(pixel.values, c, 0.0F);
        }
        reinterpret_cast<WidePixel<T>*>(item)[static_cast<std::size_t>(y) * spec.width + x] = pixel;
    }
}

template <class T>
void launch(std::span<const DeviceImage> images, const LetterboxSpec& spec, T* output, cudaStream_t stream) {
    const dim3 block(block_width, block_height);
    const Target target{spec.height, spec.width, spec.pad_value, spec.layout, spec.channels, affine(spec)};
    const std::size_t item_elements = spec.item_bytes() / sizeof(T);
    for (std::size_t first = 0; first < images.size(); first += images_per_launch) {
        const auto some = images.subspan(first, std::min(images_per_launch, images.size() - first));
        Images parameter{};
        std::copy(some.begin(), some.end(), parameter.items);
        const dim3 grid((spec.width + block_width - 1) / block_width, (spec.height + block_height - 1) / block_height,
                        static_cast<unsigned>(some.size()));
        letterbox_kernel<<<grid, block, 0, stream>>>(parameter, target, output + first * item_elements);
        check_cuda(cudaGetLastError(), "letterbox kernel");
    }
}

} // namespace

void launch_letterbox(const DeviceImage* images, std::size_t count, const LetterboxSpec& spec, void* output,
                      cudaStream_t stream) {
    switch (spec.dtype) {
    case Element::float32:
        launch({images, count}, spec, static_cast<float*>(output), stream);
        break;
    case Element::float16:
        launch({images, count}, spec, static_cast<__half*>(output), stream);
        break;
    case Element::uint8:
        launch({images, count}, spec, static_cast<std::uint8_t*>(output), stream);
        break;
    }
}

} // namespace trtw
