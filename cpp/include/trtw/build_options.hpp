// Everything that can be asked of a build. Names follow TensorRT's own, in lower case.
#pragma once

#include "trtw/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trtw {

/// One profile. Every dynamic input needs an entry in `shapes`; a shape tensor needs one in `values`.
struct Profile {
    std::map<std::string, ProfileRange> shapes = {};
    std::map<std::string, ProfileRange> values = {};

    bool operator==(const Profile&) const = default;
};

/// A host tensor in row-major order; `data` stays valid until the source is asked for the next batch.
struct CalibrationTensor {
    const void* data = nullptr;
    std::size_t bytes = 0;
    std::string dtype;
    std::vector<std::int64_t> shape;
};

using Bytes = std::vector<std::byte>;

using CalibrationBatch = std::map<std::string, CalibrationTensor>;

/// Fills the next batch; false at the end. May throw; the build then ends with that exception.
using BatchSource = std::function<bool(CalibrationBatch& batch)>;

/// `entropy2` is for convolutional networks, `minmax` for transformers.
enum class CalibrationAlgorithm : std::uint8_t { entropy2, minmax };

/// INT8 calibration of a weakly typed network (TensorRT 8 and 10).
struct Calibration {
    CalibrationAlgorithm algorithm = CalibrationAlgorithm::entropy2;
    std::function<BatchSource()> open; ///< starts a pass over the batches; empty where a cache alone is given
    std::optional<std::string> cache;  ///< bytes of an earlier calibration; with it the batches are not read
};

enum class PrecisionConstraints : std::uint8_t { none, prefer, obey };
enum class TilingLevel : std::uint8_t { none, fast, moderate, full };
enum class HardwareCompatibility : std::uint8_t { none, ampere_plus, same_compute_capability };
enum class RefitKind : std::uint8_t { none, full, identical, individual };
enum class ProfilingVerbosity : std::uint8_t { none, layer_names_only, detailed };

/// Gives a data type to the layers whose name matches a shell pattern (fnmatch).
struct LayerRule {
    std::string pattern;
    std::string dtype;

    bool operator==(const LayerRule&) const = default;
};

/// Its fields stand in build_options.def. Unset optionals leave TensorRT's default. A request that the version at hand
/// cannot honour is an error.
struct BuildOptions {
#define TRTW_OPTION(name, value, doc, ...) __VA_ARGS__ name = value;
#include "trtw/build_options.def"
#undef TRTW_OPTION
};

/// Checks what can be checked without TensorRT: ranges, options that exclude each other.
/// Throws UsageProblem.
void validate(const BuildOptions& options);

} // namespace trtw
