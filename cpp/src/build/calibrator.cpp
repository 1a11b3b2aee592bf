#include "build/calibrator.hpp"

#if TRTW_TRT_WEAK_TYPING

#include "device/check.hpp"
#include "trtw/error.hpp"

#include <algorithm>
#include <limits>
#include <utility>

// The whole of calibration is deprecated in TensorRT 10; Q/DQ nodes replace it.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace trtw {

namespace {

template <class Base>
class Calibrator final : public Base {
public:
    explicit Calibrator(CalibrationFeed& feed) : feed_{feed} {}

    // NOLINTBEGIN(modernize-use-nodiscard,modernize-avoid-c-arrays): the interface is TensorRT's.
    std::int32_t getBatchSize() const noexcept override { return feed_.batch_size(); }
    bool getBatch(void* bindings[], const char* names[], std::int32_t count) noexcept override {
        return feed_.next(bindings, names, count);
    }
    // NOLINTEND(modernize-use-nodiscard,modernize-avoid-c-arrays)
    const void* readCalibrationCache(std::size_t& length) noexcept override { return feed_.cached(length); }
    void writeCalibrationCache(const void* bytes, std::size_t length) noexcept override { feed_.keep(bytes, length); }

private:
    CalibrationFeed& feed_;
};

// TensorRT 8 reads ONNX's int64 inputs as int32.
std::vector<std::int32_t> narrowed(const CalibrationTensor& tensor, const std::string& name) {
    const auto* values = static_cast<const std::int64_t*>(tensor.data);
    const std::size_t count = tensor.bytes / sizeof(std::int64_t);
    std::vector<std::int32_t> narrow(count);
    for (std::size_t i = 0; i < count; ++i) {
        if (values[i] > std::numeric_limits<std::int32_t>::max() ||
            values[i] < std::numeric_limits<std::int32_t>::min()) {
            throw UsageProblem("Calibration input '" + name + "' holds " + std::to_string(values[i]) +
                               ", which does not fit the 32 bits of this TensorRT version.");
        }
        narrow[i] = static_cast<std::int32_t>(values[i]);
    }
    return narrow;
}

bool needs_narrowing(const CalibrationTensor& tensor, const TensorDescription& input) {
    return tensor.dtype == "int64" && input.dtype == "int32";
}

[[noreturn]] void misfit(const std::string& input, const std::string& problem) {
    throw UsageProblem("Calibration batch, input '" + input + "': " + problem + ".");
}

void check_tensor(const CalibrationTensor& tensor, const TensorDescription& input) {
    if (tensor.dtype != input.dtype && !needs_narrowing(tensor, input)) {
        misfit(input.name, "is " + tensor.dtype + ", but the model takes " + input.dtype);
    }
    const bool fits = tensor.shape.size() == input.shape.size() &&
                      std::equal(tensor.shape.begin(), tensor.shape.end(), input.shape.begin(),
                                 [](std::int64_t given, std::int64_t wanted) { return wanted < 0 || given == wanted; });
    if (!fits) {
        misfit(input.name, "is " + shape_text(tensor.shape) + ", but the model takes " + shape_text(input.shape));
    }
}

} // namespace

CalibrationFeed::CalibrationFeed(const Calibration& calibration, std::vector<TensorDescription> inputs,
                                 Progress& progress)
    : inputs_{std::move(inputs)}, progress_{progress} {
    if (calibration.cache) {
        cache_ = *calibration.cache;
        if (cache_.empty()) {
            throw UsageProblem("The calibration cache is empty.");
        }
        return;
    }
    source_ = calibration.open();
    if (!read_batch()) {
        throw UsageProblem("The calibration data has no batches.");
    }
    pending_ = true;
    for (const auto& [name, tensor] : batch_) {
        first_shapes_[name] = tensor.shape;
    }
    if (!inputs_.empty() && !batch_.at(inputs_.front().name).shape.empty()) {
        batch_size_ = static_cast<int>(batch_.at(inputs_.front().name).shape.front());
    }
}

std::map<std::string, std::vector<std::int64_t>> CalibrationFeed::shapes() const {
    return first_shapes_;
}

bool CalibrationFeed::read_batch() {
    batch_.clear();
    if (!source_(batch_)) {
        return false;
    }
    check_batch();
    return true;
}

void CalibrationFeed::check_batch() const {
    for (const TensorDescription& input : inputs_) {
        const auto found = batch_.find(input.name);
        if (found == batch_.end()) {
            misfit(input.name, "is missing");
        }
        check_tensor(found->second, input);
        const auto first = first_shapes_.find(input.name);
        if (first != first_shapes_.end() && first->second != found->second.shape) {
            misfit(input.name, "is " + shape_text(found->second.shape) + ", but the first batch was " +
                                   shape_text(first->second) + "; all batches must have the same shape");
        }
    }
    for (const auto& [name, tensor] : batch_) {
        if (std::none_of(inputs_.begin(), inputs_.end(), [&](const auto& input) { return input.name == name; })) {
            misfit(name, "the model has no such input");
        }
    }
}

void CalibrationFeed::upload(const TensorDescription& input) {
    const CalibrationTensor& tensor = batch_.at(input.name);
    std::vector<std::int32_t> narrow;
    const void* data = tensor.data;
    std::size_t bytes = tensor.bytes;
    if (needs_narrowing(tensor, input)) {
        narrow = narrowed(tensor, input.name);
        data = narrow.data();
        bytes = narrow.size() * sizeof(std::int32_t);
    }
    DeviceBuffer& buffer = buffers_[input.name];
    buffer.reserve(bytes);
    TRTW_CUDA(cudaMemcpy(buffer.data(), data, bytes, cudaMemcpyHostToDevice));
}

bool CalibrationFeed::next(void** bindings, const char** names, int count) noexcept {
    try {
        if (!source_ || (!std::exchange(pending_, false) && !read_batch())) {
            return false;
        }
        for (const TensorDescription& input : inputs_) {
            upload(input);
        }
        for (int i = 0; i < count; ++i) {
            bindings[i] = buffers_.at(names[i]).data();
        }
        ++batches_read_;
        return progress_.report("calibrate", batches_read_, 0);
    } catch (...) {
        progress_.fail(std::current_exception());
        return false;
    }
}

const void* CalibrationFeed::cached(std::size_t& length) const noexcept {
    // A cache that was given decides; one that TensorRT wrote in this build is only kept for the caller.
    length = source_ ? 0 : cache_.size();
    return length != 0 ? cache_.data() : nullptr;
}

void CalibrationFeed::keep(const void* bytes, std::size_t length) noexcept {
    try {
        cache_.assign(static_cast<const char*>(bytes), length);
    } catch (...) {
        progress_.fail(std::current_exception());
    }
}

std::unique_ptr<nvinfer1::IInt8Calibrator> make_calibrator(CalibrationAlgorithm algorithm, CalibrationFeed& feed) {
    if (algorithm == CalibrationAlgorithm::minmax) {
        return std::make_unique<Calibrator<nvinfer1::IInt8MinMaxCalibrator>>(feed);
    }
    return std::make_unique<Calibrator<nvinfer1::IInt8EntropyCalibrator2>>(feed);
}

} // namespace trtw

#endif
