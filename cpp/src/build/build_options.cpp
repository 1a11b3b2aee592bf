#include "trtw/build_options.hpp"

#include "trtw/error.hpp"

#include <string_view>

namespace trtw {

namespace {

void check_range(std::string_view option, const std::optional<int>& value, int low, int high) {
    if (value && (*value < low || *value > high)) {
        throw UsageProblem(std::string{option} + " is " + std::to_string(*value) + ", but must be from " +
                           std::to_string(low) + " to " + std::to_string(high) + ".");
    }
}

void check_together(bool wrong, const char* problem) {
    if (wrong) {
        throw UsageProblem(problem);
    }
}

void check_ranges(const BuildOptions& o) {
    constexpr int many = 1'000'000;
    check_range("device", o.device, 0, many);
    check_range("optimization_level", o.optimization_level, 0, 5);
    check_range("avg_timing_iterations", o.avg_timing_iterations, 1, many);
    check_range("max_tactics", o.max_tactics, 1, many);
    check_range("max_aux_streams", o.max_aux_streams, 0, many);
    check_range("max_threads", o.max_threads, 1, many);
    check_range("dla_core", o.dla_core, 0, many);
}

bool any_precision_rule(const BuildOptions& o) {
    return !o.layer_precisions.empty() || !o.layer_output_types.empty();
}

void check_combinations(const BuildOptions& o) {
    check_together(o.disable_timing_cache && (o.timing_cache || o.error_on_timing_cache_miss),
                   "disable_timing_cache excludes timing_cache and error_on_timing_cache_miss.");
    check_together(o.error_on_timing_cache_miss && (!o.timing_cache || o.timing_cache->empty()),
                   "error_on_timing_cache_miss needs a filled timing_cache: every kernel would be a miss.");
    check_together(o.exclude_lean_runtime && !o.version_compatible, "exclude_lean_runtime needs version_compatible.");
    check_together(o.calibration && !o.int8, "Calibration is given, but int8 is not requested.");
    check_together(o.calibration && !o.calibration->open && !o.calibration->cache,
                   "Calibration needs batches or the cache of an earlier calibration.");
    check_together(o.calibration && o.strongly_typed,
                   "A strongly typed network takes INT8 from its Q/DQ nodes; it cannot be calibrated.");
    check_together(o.strongly_typed && (o.precision_constraints != PrecisionConstraints::none || any_precision_rule(o)),
                   "A strongly typed network takes its types from the graph; precision_constraints, layer_precisions "
                   "and layer_output_types have no effect on it.");
    check_together(any_precision_rule(o) && o.precision_constraints == PrecisionConstraints::none,
                   "layer_precisions and layer_output_types need precision_constraints 'prefer' or 'obey'; otherwise "
                   "TensorRT may ignore them.");
    check_together(o.gpu_fallback && !o.dla_core, "gpu_fallback needs dla_core.");
}

} // namespace

void validate(const BuildOptions& options) {
    check_ranges(options);
    check_combinations(options);
}

} // namespace trtw
