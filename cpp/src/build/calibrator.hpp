// INT8 calibration of weakly typed networks (TensorRT 8 and 10).
#pragma once

#include "trt/version.hpp"

#if TRTW_TRT_WEAK_TYPING

#include "build/progress.hpp"
#include "trt/types.hpp"
#include "trtw/memory.hpp"

#include <NvInfer.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace trtw {

/// Copies batches to the device and keeps the cache; what both algorithms share.
class CalibrationFeed {
public:
    /// Reads the first batch, whose shapes are those of the calibration. Throws UsageProblem where it does not fit
    /// the inputs (name, dtype, shape) or where there is neither a batch nor a cache.
    CalibrationFeed(const Calibration& calibration, std::vector<TensorDescription> inputs, Progress& progress);

    /// Shapes of the first batch by input; empty where a cache makes batches needless.
    [[nodiscard]] std::map<std::string, std::vector<std::int64_t>> shapes() const;

    [[nodiscard]] int batch_size() const noexcept { return batch_size_; }
    /// Fills the device pointers of the next batch; false at the end or after an error, which Progress remembers.
    bool next(void** bindings, const char** names, int count) noexcept;
    [[nodiscard]] const void* cached(std::size_t& length) const noexcept;
    void keep(const void* bytes, std::size_t length) noexcept;

    /// The cache to store: TensorRT's newest, else the one given.
    [[nodiscard]] const std::string& cache() const noexcept { return cache_; }
    [[nodiscard]] int batches_read() const noexcept { return batches_read_; }

private:
    bool read_batch();
    void check_batch() const;
    void upload(const TensorDescription& input);

    std::vector<TensorDescription> inputs_;
    Progress& progress_;
    BatchSource source_;
    CalibrationBatch batch_;
    std::map<std::string, std::vector<std::int64_t>> first_shapes_;
    std::map<std::string, DeviceBuffer> buffers_;
    std::string cache_;
    int batch_size_ = 1;
    int batches_read_ = 0;
    bool pending_ = false; ///< the first batch was read for its shapes and not yet used
};

// TensorRT 10 deprecates the class.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
/// The calibrator for an algorithm. The feed has to outlive it.
std::unique_ptr<nvinfer1::IInt8Calibrator> make_calibrator(CalibrationAlgorithm algorithm, CalibrationFeed& feed);
#pragma GCC diagnostic pop

} // namespace trtw

#endif
