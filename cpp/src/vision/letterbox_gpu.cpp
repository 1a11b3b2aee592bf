#include "trtw/letterbox_gpu.hpp"

#include "device/check.hpp"
#include "device/copy_pool.hpp"
#include "device/range.hpp"
#include "vision/letterbox_kernel.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace trtw {

namespace {

constexpr std::size_t alignment = 256;
constexpr std::ptrdiff_t most_pitch = 0x7FFF'FFFF; // of CUDA's copies of two dimensions

std::size_t aligned(std::size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
}

std::size_t pitch(const DeviceImage& item) {
    return static_cast<std::size_t>(item.row_bytes);
}

std::size_t pixel_bytes(const DeviceImage& item) {
    return pitch(item) * static_cast<std::size_t>(staged_rows(item));
}

// Rows that are copied, and then transferred, in one go.
struct Piece {
    std::size_t image;
    int first;
    int count;
};

// The host fills one piece while the device fetches the one before.
void split(std::vector<Piece>& pieces, std::size_t image, const DeviceImage& item, std::size_t bytes) {
    const int rows = staged_rows(item);
    const int rows_per_piece = static_cast<int>(std::max<std::size_t>(bytes / pitch(item), 1));
    for (int first = 0; first < rows; first += rows_per_piece) {
        pieces.push_back({image, first, std::min(rows_per_piece, rows - first)});
    }
}

// The device's address of an image in page-locked memory, else null. Rows may lie in falling order.
const std::uint8_t* device_address(const ImageView& image) {
    const std::ptrdiff_t last_row = (image.height - 1) * image.row_bytes;
    const std::ptrdiff_t lowest = std::min<std::ptrdiff_t>(last_row, 0);
    const auto bytes = static_cast<std::size_t>(std::abs(last_row) + std::ptrdiff_t{image.width} * 3);
    const auto* begin = static_cast<const std::uint8_t*>(mapped(image.pixels + lowest, bytes));
    return begin == nullptr ? nullptr : begin - lowest;
}

// How the pixels of an image get to the kernel.
enum class Way : std::uint8_t {
    staged,  // copied to page-locked memory, uploaded from there
    upload,  // uploaded from where they lie
    in_place // read by the kernel where they lie
};

struct Planned {
    DeviceImage item;
    Way way = Way::staged;
};

// Over the bus the kernel fetches the sampled pixels of an image that shrinks about once and leaves out the rest; those
// of any other image it would fetch several times. It does so where CUDA cannot copy the rows: those that overlap, lie
// in falling order or too far apart.
Planned plan(const ImageView& image, const LetterboxSpec& spec, int device) {
    const DeviceImage item = stage(image, spec);
    if (image.device >= 0) {
        if (image.device != device) {
            throw UsageProblem("An image is on GPU " + std::to_string(image.device) + ", its letterbox on GPU " +
                               std::to_string(device) + ".");
        }
        return {in_place(item, image, image.pixels), Way::in_place};
    }
    const std::uint8_t* address = device_address(image);
    if (address == nullptr) {
        return {item, Way::staged};
    }
    if (shrinks(item) || image.row_bytes < item.row_bytes || image.row_bytes > most_pitch) {
        return {in_place(item, image, address), Way::in_place};
    }
    return {item, Way::upload};
}

} // namespace

std::size_t LetterboxGpu::enqueue(std::span<const ImageView> images, const LetterboxSpec& spec, void* output,
                                  cudaStream_t stream) {
    const Range range{"letterbox"};
    spec.validate();
    if (images.empty()) {
        throw UsageProblem("A letterbox batch must have at least one image.");
    }
    std::vector<DeviceImage> items;
    std::vector<Way> ways;
    std::size_t page_locked = 0;
    int device = 0;
    TRTW_CUDA(cudaGetDevice(&device));
    for (const ImageView& image : images) {
        const Planned planned = plan(image, spec, device);
        page_locked += static_cast<std::size_t>(image.device < 0 && planned.way != Way::staged);
        items.push_back(planned.item);
        ways.push_back(planned.way);
    }
    // Staged images lie at the same offsets on host and device, uploaded ones behind them.
    std::vector<std::size_t> offsets(items.size());
    std::vector<Piece> pieces;
    std::size_t total = 0;
    const auto place = [&](Way way) {
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (ways[i] == way) {
                offsets[i] = total;
                total += aligned(pixel_bytes(items[i]));
            }
        }
        return total;
    };
    const std::size_t staged_bytes = place(Way::staged);
    const std::size_t device_bytes = place(Way::upload);
    if (staged_bytes > 0) {
        host_.reserve(staged_bytes);
    }
    if (device_bytes > 0) {
        device_.reserve(device_bytes);
    }
    auto* host = static_cast<std::uint8_t*>(host_.data());
    auto* target = static_cast<std::uint8_t*>(device_.data());
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (ways[i] != Way::in_place) {
            items[i].pixels = target + offsets[i];
        }
        if (ways[i] == Way::upload) {
            TRTW_CUDA(cudaMemcpy2DAsync(target + offsets[i], pitch(items[i]), images[i].pixels,
                                        static_cast<std::size_t>(images[i].row_bytes), pitch(items[i]),
                                        static_cast<std::size_t>(images[i].height), cudaMemcpyHostToDevice, stream));
        } else if (ways[i] == Way::staged) {
            split(pieces, i, items[i], piece_bytes(staged_bytes));
        }
    }
    const auto offset_of = [&](const Piece& piece, int row) {
        return offsets[piece.image] + static_cast<std::size_t>(row) * pitch(items[piece.image]);
    };
    const auto copy = [&](std::size_t index) {
        const Piece& piece = pieces[index];
        copy_rows(images[piece.image], items[piece.image], piece.first, piece.count,
                  host + offset_of(piece, piece.first));
    };
    // Pieces of several images, too: what lies between them is nobody's.
    const auto transfer = [&](std::size_t first, std::size_t end) {
        const Piece& last = pieces[end - 1];
        const std::size_t begin = offset_of(pieces[first], pieces[first].first);
        const std::size_t bytes = offset_of(last, last.first + last.count) - begin;
        TRTW_CUDA(cudaMemcpyAsync(target + begin, host + begin, bytes, cudaMemcpyHostToDevice, stream));
    };
    run_pieces(staged_bytes, pieces.size(), std::ref(copy), std::ref(transfer), polls_);
    launch_letterbox(items.data(), items.size(), spec, output, stream);
    return page_locked;
}

} // namespace trtw
