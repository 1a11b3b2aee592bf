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

namespace trtw::engine {

/// One profile. Every dynamic input needs an entry in `shapes`; a shape tensor needs one in `values`.
struct Profile {
    std::map<std::string, ProfileRange> shapes;
    std::map<std::string, ProfileRange> values;

    bool operator==(const Profile&) const = default;
};

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

/// Unset optionals leave TensorRT's default. A request that the version at hand cannot honour is an error.
struct BuildOptions {
    int device = 0; ///< CUDA device index

    std::vector<Profile> profiles;

    // Precision. On a weakly typed network a flag permits a type; on a strongly typed one (a choice in TensorRT 10,
    // always in 11) the graph decides, and a flag demands that the graph has the type.
    bool fp16 = false;
    bool bf16 = false;
    bool int8 = false;
    bool fp8 = false;
    bool int4 = false;
    bool fp4 = false;
    bool tf32 = true;
    bool strongly_typed = false;
    bool sparse_weights = false;
    PrecisionConstraints precision_constraints = PrecisionConstraints::none;
    std::vector<LayerRule> layer_precisions;
    std::vector<LayerRule> layer_output_types;
    std::shared_ptr<const Calibration> calibration;

    // Search for kernels.
    std::map<std::string, std::uint64_t> memory_pools; ///< pool name to bytes
    std::optional<int> optimization_level;             ///< 0 to 5
    std::map<std::string, bool> tactic_sources;        ///< source name to on or off; see apply_options
    std::map<std::string, bool> preview_features;
    std::optional<int> avg_timing_iterations;
    std::optional<int> max_tactics;
    std::optional<int> max_aux_streams;
    std::optional<int> max_threads;
    std::optional<TilingLevel> tiling_optimization_level;
    std::optional<std::string> build_route; ///< as IBuilderConfig::getAllBuildRoutes writes it

    // Timing cache.
    std::optional<std::string> timing_cache; ///< bytes of an earlier one; empty starts a new one
    bool timing_cache_ignore_mismatch = false;
    bool disable_timing_cache = false;
    bool error_on_timing_cache_miss = false;
    bool editable_timing_cache = false;

    // The kind of plan.
    HardwareCompatibility hardware_compatibility = HardwareCompatibility::none;
    bool version_compatible = false;
    bool exclude_lean_runtime = false;
    bool strip_weights = false;
    RefitKind refit = RefitKind::none;
    bool weight_streaming = false;
    ProfilingVerbosity profiling_verbosity = ProfilingVerbosity::layer_names_only;
    bool strict_nans = false;
    bool distributive_independence = false; ///< bitwise equal results at every position of a batch

    // Inputs and outputs.
    std::map<std::string, std::string> io_types;                ///< tensor name to data type
    std::map<std::string, std::vector<std::string>> io_formats; ///< tensor name to allowed formats ("linear", "hwc8")
    bool direct_io = false;

    // Parser and plugins.
    std::vector<std::string> plugins;              ///< shared libraries to load before parsing
    std::vector<std::string> plugins_to_serialize; ///< shared libraries to embed in the plan
    std::optional<bool> native_instance_norm;

    // Deep Learning Accelerator of Jetson and DRIVE.
    std::optional<int> dla_core;
    bool gpu_fallback = false;
};

/// Checks what can be checked without TensorRT: ranges, options that exclude each other.
/// Throws UsageProblem.
void validate(const BuildOptions& options);

} // namespace trtw::engine
