// Masks of found boxes on the GPU: one kernel makes them a tile at a time, another sends them.
#include "device/check.hpp"
#include "vision/head_kernel.hpp"
#include "vision/mask.hpp"

namespace trtw::head {

namespace {

constexpr int threads = 256;
constexpr int tile_rows = 32;
constexpr int tile_words = 4;
// Planes are no larger than the input: one pixel more than those of a tile, and one as places are rounded.
constexpr int plane_rows = tile_rows + 2;
constexpr int plane_columns = 32 * tile_words + 2;
constexpr unsigned check_blocks = 64;
constexpr unsigned blocks_of_a_box = 8;
constexpr unsigned send_blocks = 16;

__global__ void __launch_bounds__(threads) check_planes_kernel(const __grid_constant__ Head head, Room room) {
    const int image = static_cast<int>(blockIdx.y);
    const int pixels = head.plane_height * head.plane_width;
    bool is_odd = false;
    for (int plane = 0; plane < head.values; ++plane) {
        for (unsigned pixel = blockIdx.x * threads + threadIdx.x; pixel < static_cast<unsigned>(pixels);
             pixel += check_blocks * threads) {
            is_odd = is_odd || !is_finite(value(head.planes, image, plane, static_cast<int>(pixel)));
        }
    }
    if (is_odd) {
        room.counters[image].odd = 1;
    }
}

struct Shared {
    float weights[most_values];
    float logits[plane_rows][plane_columns];
    unsigned long long words;
};

/// How many words the masks of better boxes take.
__device__ std::int64_t words_before(const Head& head, const Result& result, int box, Shared& shared) {
    if (threadIdx.x == 0) {
        shared.words = 0;
    }
    __syncthreads();
    unsigned long long mine = 0;
    for (int other = static_cast<int>(threadIdx.x); other < box; other += threads) {
        mine += static_cast<unsigned long long>(word_count(region_of(head, result.boxes[other])));
    }
    if (mine > 0) {
        atomicAdd(&shared.words, mine);
    }
    __syncthreads();
    return static_cast<std::int64_t>(shared.words);
}

/// Part of the input, at a word of the region's rows.
__device__ Region tile_of(const Region& region, int tile) {
    const int across = (row_words(region) + tile_words - 1) / tile_words;
    const int top = region.top + tile / across * tile_rows;
    const int left = region.left + tile % across * tile_words * 32;
    return {top, min(top + tile_rows, region.bottom), left, min(left + tile_words * 32, region.right)};
}

/// Fills the logits that a tile lies between; the first of them is at `top`, `left` of the planes.
__device__ void weigh(const Head& head, int image, const Region& tile, int top, int left, Shared& shared) {
    const int rows = plane_tap(tile.bottom - 1, head.height, head.plane_height).high - top + 1;
    const int columns = plane_tap(tile.right - 1, head.width, head.plane_width).high - left + 1;
    for (int at = static_cast<int>(threadIdx.x); at < rows * columns; at += threads) {
        const int row = at / columns;
        const int column = at % columns;
        shared.logits[row][column] =
            weighed(head, image, shared.weights, (top + row) * head.plane_width + left + column);
    }
}

__device__ bool is_inside(const Head& head, int y, int x, int top, int left, const Shared& shared) {
    const PlaneTap row = plane_tap(y, head.height, head.plane_height);
    const PlaneTap column = plane_tap(x, head.width, head.plane_width);
    const float* low = shared.logits[row.low - top];
    const float* high = shared.logits[row.high - top];
    const float first = between(low[column.low - left], high[column.low - left], row.weight);
    const float second = between(low[column.high - left], high[column.high - left], row.weight);
    return between(first, second, column.weight) > 0.0F;
}

/// By warps, a word at a time; `target` is the first word of the region.
__device__ void write_tile(const Head& head, const Region& region, const Region& tile, int top, int left,
                           std::uint32_t* target, const Shared& shared) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int words = row_words(tile);
    for (int at = static_cast<int>(threadIdx.x) / 32; at < (tile.bottom - tile.top) * words; at += threads / 32) {
        const int y = tile.top + at / words;
        const int x = tile.left + at % words * 32 + lane;
        const bool is_set = x < tile.right && is_inside(head, y, x, top, left, shared);
        const std::uint32_t word = __ballot_sync(0xFFFFFFFFU, is_set);
        if (lane == 0) {
            target[std::int64_t{y - region.top} * row_words(region) + (x - region.left) / 32] = word;
        }
    }
}

__global__ void __launch_bounds__(threads)
    mask_kernel(const __grid_constant__ Head head, Room room, std::size_t bytes) {
    __shared__ Shared shared;
    const int box = static_cast<int>(blockIdx.x);
    const int image = static_cast<int>(blockIdx.z);
    const Result result = result_at(room.results, bytes, head.max_dets, image);
    if (box >= result.header->count) {
        return;
    }
    const Region region = region_of(head, result.boxes[box]);
    const int down = (region.bottom - region.top + tile_rows - 1) / tile_rows;
    const int tiles = down * ((row_words(region) + tile_words - 1) / tile_words);
    if (static_cast<int>(blockIdx.y) >= tiles) {
        return;
    }
    std::uint32_t* target = room.masks + room.mask_words * image + words_before(head, result, box, shared);
    for (int plane = static_cast<int>(threadIdx.x); plane < head.values; plane += threads) {
        shared.weights[plane] = value(head.more, image, result.items[box], plane);
    }
    for (int at = static_cast<int>(blockIdx.y); at < tiles; at += static_cast<int>(blocks_of_a_box)) {
        __syncthreads(); // the weights are there, and the tile before is written
        const Region tile = tile_of(region, at);
        const int top = plane_tap(tile.top, head.height, head.plane_height).low;
        const int left = plane_tap(tile.left, head.width, head.plane_width).low;
        weigh(head, image, tile, top, left, shared);
        __syncthreads();
        write_tile(head, region, tile, top, left, target, shared);
    }
}

/// Only what is used crosses the bus.
__global__ void __launch_bounds__(threads) send_masks_kernel(int max_dets, Room room, std::size_t bytes) {
    const int image = static_cast<int>(blockIdx.y);
    const std::uint32_t words = result_at(room.results, bytes, max_dets, image).header->mask_words;
    const std::int64_t first = room.mask_words * image;
    for (std::uint32_t at = blockIdx.x * threads + threadIdx.x; at < words; at += send_blocks * threads) {
        room.host_masks[first + at] = room.masks[first + at];
    }
}

} // namespace

void launch_check_of_planes(const Head& head, int images, const Room& room, cudaStream_t stream) {
    const dim3 grid(check_blocks, static_cast<unsigned>(images));
    check_planes_kernel<<<grid, threads, 0, stream>>>(head, room);
    check_cuda(cudaGetLastError(), "kernel that checks the planes of masks");
}

void launch_masks(const Head& head, int images, const Room& room, cudaStream_t stream) {
    const std::size_t bytes = result_bytes(head.max_dets, head.values);
    const dim3 boxes(static_cast<unsigned>(head.max_dets), blocks_of_a_box, static_cast<unsigned>(images));
    mask_kernel<<<boxes, threads, 0, stream>>>(head, room, bytes);
    check_cuda(cudaGetLastError(), "kernel of masks");
    const dim3 parts(send_blocks, static_cast<unsigned>(images));
    send_masks_kernel<<<parts, threads, 0, stream>>>(head.max_dets, room, bytes);
    check_cuda(cudaGetLastError(), "kernel that sends masks");
}

} // namespace trtw::head
