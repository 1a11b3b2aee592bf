#include "vision/jpeg_decoder.hpp"

#include "device/check.hpp"
#include "device/range.hpp"
#include "device/scope.hpp"
#include "trtw/detail/stream.hpp"
#include "trtw/error.hpp"
#include "vision/nvjpeg.hpp"

#include <dlfcn.h>

#include <array>
#include <bit>
#include <map>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

namespace trtw {

namespace {

std::string loader_error() {
    const char* text = dlerror();
    return text != nullptr ? text : "unknown error of the dynamic loader";
}

// Never closed: what a library of CUDA has registered stays with the driver.
nvjpeg::Api open_nvjpeg(const std::string& library) {
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        throw ComponentMissing("nvJPEG cannot be opened: " + loader_error() + ".");
    }
    nvjpeg::Api api{};
    const auto find = [&](auto& function, const char* name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
        if (function == nullptr) {
            throw ComponentMissing(library + " lacks " + name + ": it is not nvJPEG, or too old.");
        }
    };
#define TRTW_FIND(name) find(api.name, #name)
    TRTW_FIND(nvjpegGetProperty);
    TRTW_FIND(nvjpegCreateEx);
    TRTW_FIND(nvjpegDestroy);
    TRTW_FIND(nvjpegJpegStateCreate);
    TRTW_FIND(nvjpegJpegStateDestroy);
    TRTW_FIND(nvjpegGetImageInfo);
    TRTW_FIND(nvjpegDecode);
#undef TRTW_FIND
    return api;
}

} // namespace

/// Device memory by the power of two of its size. Blocks that are given back stay here, as to allocate and to free
/// some waits for the whole device.
class JpegDecoder::Blocks : public std::enable_shared_from_this<Blocks> {
public:
    std::shared_ptr<DeviceMemory> take(std::size_t bytes) {
        const std::size_t size = std::bit_ceil(bytes);
        std::unique_ptr<DeviceMemory> block = spare(size);
        if (!block) {
            block = std::make_unique<DeviceMemory>(size);
        }
        return {block.release(), [owner = shared_from_this()](DeviceMemory* memory) {
                    owner->give_back(std::unique_ptr<DeviceMemory>{memory});
                }};
    }

private:
    std::unique_ptr<DeviceMemory> spare(std::size_t size) {
        const std::scoped_lock lock{mutex_};
        const auto node = spare_.extract(size);
        return node ? std::move(node.mapped()) : nullptr;
    }
    void give_back(std::unique_ptr<DeviceMemory> block) {
        const std::scoped_lock lock{mutex_};
        const std::size_t size = block->bytes();
        spare_.emplace(size, std::move(block));
    }

    std::mutex mutex_;
    std::multimap<std::size_t, std::unique_ptr<DeviceMemory>> spare_;
};

/// The library with what each call has for itself.
class JpegDecoder::Lanes {
public:
    struct Lane {
        explicit Lane(const Lanes& owner) : api{&owner.api} {
            if (api->nvjpegJpegStateCreate(owner.handle, &state) != nvjpeg::success) {
                raise_cuda(cudaErrorMemoryAllocation, "nvjpegJpegStateCreate");
            }
        }
        ~Lane() { static_cast<void>(api->nvjpegJpegStateDestroy(state)); }
        Lane(const Lane&) = delete;
        Lane& operator=(const Lane&) = delete;

        const nvjpeg::Api* api;
        nvjpeg::State state = nullptr;
        Stream stream;
    };

    explicit Lanes(const std::string& library) : api{open_nvjpeg(library)} {
        const auto create = [&](unsigned flags) {
            return api.nvjpegCreateEx(nvjpeg::default_backend, nullptr, nullptr, flags, &handle);
        };
        nvjpeg::Status status = create(nvjpeg::interpolated_chroma);
        if (status != nvjpeg::success) {
            status = create(0);
        }
        if (status != nvjpeg::success) {
            throw ComponentMissing(library + " does not serve this GPU or its driver: nvjpegCreateEx returns status " +
                                   std::to_string(status) + ".");
        }
    }
    ~Lanes() {
        idle_.clear();
        static_cast<void>(api.nvjpegDestroy(handle));
    }
    Lanes(const Lanes&) = delete;
    Lanes& operator=(const Lanes&) = delete;

    std::unique_ptr<Lane> take() {
        {
            const std::scoped_lock lock{mutex_};
            if (!idle_.empty()) {
                std::unique_ptr<Lane> lane = std::move(idle_.back());
                idle_.pop_back();
                return lane;
            }
        }
        return std::make_unique<Lane>(*this);
    }
    void give_back(std::unique_ptr<Lane> lane) {
        const std::scoped_lock lock{mutex_};
        idle_.push_back(std::move(lane));
    }

    const nvjpeg::Api api;
    nvjpeg::Handle handle = nullptr;

private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<Lane>> idle_;
};

JpegDecoder::JpegDecoder(const std::string& library, int device) : blocks_{std::make_shared<Blocks>()} {
    const DeviceScope scope{device};
    device_ = scope.device();
    lanes_ = std::make_unique<Lanes>(library);
}

JpegDecoder::~JpegDecoder() {
    const DeviceScope scope{device_, std::nothrow};
    lanes_.reset();
}

std::string JpegDecoder::version() const {
    std::string text;
    for (const int part : {0, 1, 2}) {
        int number = 0;
        static_cast<void>(lanes_->api.nvjpegGetProperty(part, &number));
        text += (text.empty() ? "" : ".") + std::to_string(number);
    }
    return text;
}

std::optional<DecodedImage> JpegDecoder::decode(std::span<const std::uint8_t> file) {
    const Range range{"nvjpeg"};
    const DeviceScope scope{device_};
    const nvjpeg::Api& api = lanes_->api;
    int components = 0;
    int subsampling = 0;
    std::array<int, nvjpeg::most_components> widths{};
    std::array<int, nvjpeg::most_components> heights{};
    const nvjpeg::Status known = api.nvjpegGetImageInfo(lanes_->handle, file.data(), file.size(), &components,
                                                        &subsampling, widths.data(), heights.data());
    if (known != nvjpeg::success || components != 3 || widths[0] < 1 || heights[0] < 1) {
        return std::nullopt;
    }
    const std::size_t pitch = static_cast<std::size_t>(widths[0]) * 3;
    DecodedImage image{blocks_->take(pitch * static_cast<std::size_t>(heights[0])), heights[0], widths[0]};
    std::unique_ptr<Lanes::Lane> lane = lanes_->take();
    const cudaStream_t stream = lane->stream.get();
    image.block->readers().make_wait({stream});
    nvjpeg::Image target{};
    target.channel[0] = static_cast<unsigned char*>(image.block->data());
    target.pitch[0] = pitch;
    const nvjpeg::Status decoded = api.nvjpegDecode(lanes_->handle, lane->state, file.data(), file.size(),
                                                    nvjpeg::interleaved_bgr, &target, stream);
    lane->stream.synchronize(); // also after a failure: what it had put there uses the memory
    if (decoded == nvjpeg::allocator_failure) {
        raise_cuda(cudaErrorMemoryAllocation, "nvjpegDecode");
    }
    if (decoded != nvjpeg::success) {
        return std::nullopt; // and its state goes: nobody says in which condition it is
    }
    lanes_->give_back(std::move(lane));
    return image;
}

} // namespace trtw
