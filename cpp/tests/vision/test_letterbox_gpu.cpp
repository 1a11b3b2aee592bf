#include "trtw/letterbox_gpu.hpp"

#include "fake_cuda.hpp"
#include "trtw/detail/stream.hpp"
#include "trtw/error.hpp"
#include "trtw/memory.hpp"
#include "vision_specs.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

using namespace trtw;

namespace {

std::vector<std::uint8_t> pattern(int height, int width) {
    std::vector<std::uint8_t> pixels;
    for (int y = 0; y < height; ++y) {
        for (int x = 0; x < 3 * width; ++x) {
            pixels.push_back(static_cast<std::uint8_t>(13 * y + 7 * x));
        }
    }
    return pixels;
}

// An image of 50 x 40 on a GPU.
class There {
public:
    There() {
        const std::vector<std::uint8_t> pixels = pattern(50, 40);
        std::memcpy(memory_.data(), pixels.data(), pixels.size());
    }

    [[nodiscard]] ImageView view(int device = 0) const {
        return {static_cast<const std::uint8_t*>(memory_.data()), 50, 40, 120, device};
    }

private:
    DeviceMemory memory_{50 * 120};
};

} // namespace

TEST_CASE("an image on the device is letterboxed where it lies") {
    const There image;
    LetterboxGpu letterbox;
    const Stream stream;
    for (const int side : {8, 24, 200}) { // less than half of the image, less, and more
        const LetterboxSpec spec = grey_level_spec(side, side);
        const std::vector<std::uint8_t> ordinary = pattern(30, 60);
        const ImageView here{ordinary.data(), 30, 60, 180};
        std::vector<std::uint8_t> found(2 * spec.item_bytes());
        std::vector<std::uint8_t> expected(2 * spec.item_bytes());
        CHECK(letterbox.enqueue(std::vector{image.view(), here}, spec, found.data(), stream.get()) == 0);
        stream.synchronize();
        letterbox_cpu(image.view(), spec, expected.data());
        letterbox_cpu(here, spec, expected.data() + spec.item_bytes());
        CHECK(found == expected);
    }
}

TEST_CASE("an ordinary image is copied in pieces, by a helper that polls, too") {
    const Stream stream;
    const LetterboxSpec spec = grey_level_spec(320, 320);
    const std::vector<std::uint8_t> pixels = pattern(300, 400); // 352 KiB, in pieces of 128 KiB
    const ImageView image{pixels.data(), 300, 400, 1200};
    std::vector<std::uint8_t> expected(spec.item_bytes());
    letterbox_cpu(image, spec, expected.data());
    for (const bool polls : {false, true}) {
        LetterboxGpu letterbox{polls};
        for (int turn = 0; turn < 20; ++turn) {
            std::vector<std::uint8_t> found(spec.item_bytes());
            const std::size_t before = fake::copies_from(nullptr, SIZE_MAX);
            letterbox.enqueue(std::vector{image}, spec, found.data(), stream.get());
            const std::size_t copies = fake::copies_from(nullptr, SIZE_MAX) - before;
            CHECK(copies >= (polls ? 1 : 3)); // pieces that are done by then go together
            CHECK(copies <= 3);
            stream.synchronize();
            CHECK(found == expected);
        }
    }
}

TEST_CASE("images on the device need no staging memory, and have to be on the letterbox's") {
    const There image;
    LetterboxGpu letterbox;
    const Stream stream;
    LetterboxSpec spec = grey_level_spec(8, 8);
    spec.layout = Layout::hwc8;
    std::vector<std::uint8_t> found(spec.item_bytes(), 1);
    std::vector<std::uint8_t> expected(spec.item_bytes());
    letterbox_cpu(image.view(), spec, expected.data());
    letterbox.enqueue(std::vector{image.view()}, spec, found.data(), stream.get());
    stream.synchronize();
    CHECK(found == expected);
    CHECK(letterbox.pinned_bytes() + letterbox.device_bytes() == 0);
    CHECK_THROWS_AS(letterbox.enqueue(std::vector{image.view(1)}, spec, found.data(), stream.get()), UsageProblem);
}
