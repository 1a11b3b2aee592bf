// What an INT8 calibrator is fed with. Free of TensorRT, so that options can be described without its headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trtw::engine {

/// A host tensor in row-major order; `data` stays valid until the source is asked for the next batch.
struct CalibrationTensor {
    const void* data = nullptr;
    std::size_t bytes = 0;
    std::string dtype;
    std::vector<std::int64_t> shape;
};

using CalibrationBatch = std::map<std::string, CalibrationTensor>;

/// Fills the next batch; false at the end. May throw; the build then ends with that exception.
using BatchSource = std::function<bool(CalibrationBatch& batch)>;

/// INT8 calibration of a weakly typed network (TensorRT 8 and 10).
struct Calibration {
    std::string algorithm = "entropy2"; ///< "entropy2" (convolutional networks) or "minmax" (transformers)
    std::function<BatchSource()> open;  ///< starts a pass over the batches; empty where a cache alone is given
    std::optional<std::string> cache;   ///< bytes of an earlier calibration; with it the batches are not read
};

} // namespace trtw::engine
