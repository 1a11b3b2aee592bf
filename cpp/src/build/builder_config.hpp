// Build options to TensorRT's builder configuration, all but precision (precision.hpp) and calibration.
#pragma once

#include "trt/names.hpp"
#include "trtw/build_options.hpp"

#include <NvInfer.h>

#include <memory>
#include <string>
#include <vector>

namespace trtw {

/// Throws UsageProblem for options that this TensorRT version does not have.
void check_supported(const BuildOptions& options);

/// Adds the profiles, after validating them against the network. Dimensions of inputs to which the profiles leave one
/// value become static, unless there is calibration data, whose shapes are its own. A network of fixed inputs in which
/// a shape depends on the data gets a profile of its own.
void apply_profiles(nvinfer1::IBuilder& builder, nvinfer1::INetworkDefinition& network,
                    nvinfer1::IBuilderConfig& config, const BuildOptions& options);

/// Sets flags, limits, tactic sources, timing cache and formats. Returns warnings that are no reason to stop. A tactic
/// source that is on by default is switched off, with a warning, where its library cannot be used; one that was asked
/// for is a ComponentMissing. `timing_cache` has to outlive the build; see apply_timing_cache.
std::vector<std::string> apply_options(nvinfer1::INetworkDefinition& network, nvinfer1::IBuilderConfig& config,
                                       const BuildOptions& options,
                                       std::unique_ptr<nvinfer1::ITimingCache>& timing_cache);

/// The words of `profiling_verbosity`.
extern const Names<nvinfer1::ProfilingVerbosity> verbosity_words;

/// The words that this TensorRT version has, for `tactic_sources`, `memory_pools`, `preview_features`, `io_formats`.
std::vector<std::string> tactic_source_names();
std::vector<std::string> memory_pool_names();
std::vector<std::string> preview_feature_names();
std::vector<std::string> io_format_names();

/// Names of the sources in a mask.
std::vector<std::string> tactic_source_names_in(nvinfer1::TacticSources mask);

} // namespace trtw
