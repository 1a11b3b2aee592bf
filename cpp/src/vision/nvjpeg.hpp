// What is used of nvJPEG, declared as its header of versions 11 to 13 does: neither header nor library need be there.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace trtw::nvjpeg {

using Status = int;
constexpr Status success = 0;
constexpr Status allocator_failure = 5;

constexpr int default_backend = 0;
constexpr int interleaved_bgr = 6;
constexpr unsigned interpolated_chroma = 1U << 5U; ///< as libjpeg does it; not known before CUDA 12
constexpr std::size_t most_components = 4;

struct Image {
    unsigned char* channel[most_components];
    std::size_t pitch[most_components];
};

using Handle = struct nvjpegHandle*;
using State = struct nvjpegJpegState*;

struct Api {
    Status (*nvjpegGetProperty)(int type, int* value);
    Status (*nvjpegCreateEx)(int backend, void* device_allocator, void* pinned_allocator, unsigned flags,
                             Handle* handle);
    Status (*nvjpegDestroy)(Handle handle);
    Status (*nvjpegJpegStateCreate)(Handle handle, State* state);
    Status (*nvjpegJpegStateDestroy)(State state);
    Status (*nvjpegGetImageInfo)(Handle handle, const unsigned char* data, std::size_t bytes, int* components,
                                 int* subsampling, int* widths, int* heights);
    Status (*nvjpegDecode)(Handle handle, State state, const unsigned char* data, std::size_t bytes, int format,
                           Image* image, cudaStream_t stream);
};

} // namespace trtw::nvjpeg
