#include "trtw/vision/letterbox_gpu.hpp"

#include "trtw/device/check.hpp"
#include "trtw/device/range.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace trtw::vision {

namespace {

// The host fills one piece while the device fetches the one before. Below this size the calls cost more than they
// hide.
constexpr std::size_t piece_bytes = std::size_t{512} << 10U;
constexpr std::size_t alignment = 256;
constexpr std::size_t most_images = 65535; // the grid's third dimension

std::size_t aligned(std::size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
}

std::size_t pixel_bytes(const DeviceImage& item) {
    return static_cast<std::size_t>(item.row_bytes) * static_cast<std::size_t>(staged_rows(item));
}

// Copies rows into `host` and starts their way to `target`, a few rows at a time.
void upload(const ImageView& image, const DeviceImage& item, std::uint8_t* host, std::uint8_t* target,
            cudaStream_t stream) {
    const auto row = static_cast<std::size_t>(item.row_bytes);
    const int rows = staged_rows(item);
    const int rows_per_piece = static_cast<int>(std::max<std::size_t>(piece_bytes / row, 1));
    for (int first = 0; first < rows; first += rows_per_piece) {
        const int count = std::min(rows_per_piece, rows - first);
        const std::size_t offset = static_cast<std::size_t>(first) * row;
        const std::size_t bytes = static_cast<std::size_t>(count) * row;
        copy_rows(image, item, first, count, host + offset);
        TRTW_CUDA(cudaMemcpyAsync(target + offset, host + offset, bytes, cudaMemcpyHostToDevice, stream));
    }
}

} // namespace

void LetterboxGpu::enqueue(std::span<const ImageView> images, const LetterboxSpec& spec, void* output,
                           cudaStream_t stream) {
    const device::Range range{"letterbox"};
    spec.validate();
    if (images.empty() || images.size() > most_images) {
        throw UsageProblem("A letterbox batch holds 1 to 65535 images; got " + std::to_string(images.size()) + ".");
    }
    const std::size_t table_bytes = aligned(images.size() * sizeof(DeviceImage));
    std::vector<DeviceImage> items;
    std::vector<std::size_t> offsets;
    items.reserve(images.size());
    offsets.reserve(images.size());
    std::size_t total = table_bytes;
    for (const ImageView& image : images) {
        items.push_back(stage(image, spec));
        offsets.push_back(total);
        total += aligned(pixel_bytes(items.back()));
    }
    device_.reserve(total);
    host_.reserve(total);
    auto* host = static_cast<std::uint8_t*>(host_.data());
    auto* target = static_cast<std::uint8_t*>(device_.data());
    for (std::size_t i = 0; i < items.size(); ++i) {
        items[i].pixels = target + offsets[i];
    }
    std::copy(items.begin(), items.end(), reinterpret_cast<DeviceImage*>(host));
    TRTW_CUDA(cudaMemcpyAsync(target, host, table_bytes, cudaMemcpyHostToDevice, stream));
    for (std::size_t i = 0; i < items.size(); ++i) {
        upload(images[i], items[i], host + offsets[i], target + offsets[i], stream);
    }
    launch_letterbox(reinterpret_cast<const DeviceImage*>(target), static_cast<int>(images.size()), spec, output,
                     stream);
}

} // namespace trtw::vision
