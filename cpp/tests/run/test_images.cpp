// Images through a runner: from ordinary, page-locked and device memory, against the letterbox on the CPU.
#include "fake_cuda.hpp"
#include "fake_engine.hpp"
#include "trtw/detail/stream.hpp"
#include "trtw/letterbox.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <span>

using trtw::DeviceMemory;
using trtw::ImageView;
using trtw::Input;
using trtw::LetterboxSpec;
using trtw::Runner;
using trtw::RunnerOptions;

namespace {

using Pixels = std::vector<std::uint8_t>;

LetterboxSpec grey_levels() {
    LetterboxSpec spec;
    spec.height = spec.width = 4;
    spec.dtype = trtw::Element::uint8; // the double of the kernel writes grey levels
    spec.scale = 1.0;
    spec.channels = trtw::Channels::bgr;
    return spec;
}

// Its output is its input: up to 40 images.
std::shared_ptr<fake::Engine> pictures() {
    fake::TensorInfo in = fake::input("images", -1);
    fake::TensorInfo out = fake::output("y", -1);
    in.shape = out.shape = {-1, 3, 4, 4};
    in.dtype = out.dtype = "uint8";
    in.bits = out.bits = 8;
    in.profiles = {trtw::ProfileRange{{1, 3, 4, 4}, {1, 3, 4, 4}, {40, 3, 4, 4}}};
    return std::make_shared<fake::Engine>(std::vector{in, out},
                                          [](const std::vector<fake::Values>& x, float /*weight*/) { return x; });
}

class Album {
public:
    explicit Album(unsigned seed) : random_{seed} {
        input.source = trtw::Source::images;
        input.spec = grey_levels();
    }

    // Of images on the device the pixels are still being written.
    void add(cudaStream_t writer) {
        const int height = 1 + static_cast<int>(random_() % 20);
        const int width = 1 + static_cast<int>(random_() % 20);
        const std::ptrdiff_t row = width * 3 + static_cast<int>(random_() % 3);
        Pixels& pixels = pixels_.emplace_back(static_cast<std::size_t>(row * height));
        std::ranges::generate(pixels, [this] { return static_cast<std::uint8_t>(random_()); });
        ImageView view{pixels.data(), height, width, row};
        if (random_() % 3 == 0) { // upside down
            view.pixels += row * (height - 1);
            view.row_bytes = -row;
        }
        Pixels one(input.spec.item_bytes());
        trtw::letterbox_cpu(view, input.spec, one.data());
        expected.insert(expected.end(), one.begin(), one.end());
        const auto kind = random_() % 3;
        if (kind == 1) {
            locked_.push_back(std::make_unique<fake::PageLocked>(pixels.data(), pixels.size()));
        } else if (kind == 2 && view.row_bytes > 0) {
            auto& block = there_.emplace_back(std::make_unique<DeviceMemory>(pixels.size()));
            auto* to = static_cast<std::uint8_t*>(block->data());
            fake::enqueue(writer, [to, pixels] { std::ranges::copy(pixels, to); });
            view.pixels = to;
            view.device = 0;
        }
        input.images.push_back(view);
        input.shape = {static_cast<std::int64_t>(input.images.size()), 3, 4, 4};
    }

    Input input;
    Pixels expected;

private:
    std::mt19937 random_;
    std::deque<Pixels> pixels_;
    std::vector<std::unique_ptr<fake::PageLocked>> locked_;
    std::vector<std::unique_ptr<DeviceMemory>> there_;
};

} // namespace

TEST_CASE("images of every kind of memory, in every slot, come out as the letterbox on the CPU has them") {
    for (unsigned seed = 0; seed < 12; ++seed) {
        fake::seed(seed);
        RunnerOptions options;
        options.slots = 1 + static_cast<int>(seed % 3);
        options.cuda_graph = seed % 4 != 3;
        options.graph_includes_transfers = seed % 2 == 0;
        Runner runner{pictures(), options};
        const trtw::Stream writer;
        int wrong = 0;
        for (unsigned turn = 0; turn < 40; ++turn) {
            Album album{1000 * seed + turn};
            for (unsigned image = 0; image < 1 + turn % (turn % 9 == 0 ? 40 : 3); ++image) {
                album.add(writer.get());
            }
            const trtw::Event written;
            written.record(writer.get());
            written.make_wait(runner.intake());
            const auto finished = runner.run(fake::call_of({album.input}));
            const trtw::Output& output = finished.outputs()[0];
            const auto* found = static_cast<const std::uint8_t*>(output.host->data());
            wrong += output.bytes == album.expected.size() &&
                             std::ranges::equal(album.expected, std::span{found, output.bytes})
                         ? 0
                         : 1;
        }
        CAPTURE(seed);
        CHECK(wrong == 0);
    }
    fake::seed(0);
}
