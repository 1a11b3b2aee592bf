#include "build/builder_config.hpp"

#include "build/network.hpp"
#include "build/tactic_libraries.hpp"
#include "build/timing_cache.hpp"
#include "trt/logger.hpp"
#include "trt/plugins.hpp"
#include "trt/types.hpp"
#include "trt/version.hpp"
#include "trtw/error.hpp"
#include "trtw/library.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <span>

// Version 10 deprecates flags and sources that 11 removed; they are used where the headers have them.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace trtw {

const Names<nvinfer1::ProfilingVerbosity> verbosity_words = {
    {"none", nvinfer1::ProfilingVerbosity::kNONE},
    {"layer_names_only", nvinfer1::ProfilingVerbosity::kLAYER_NAMES_ONLY},
    {"detailed", nvinfer1::ProfilingVerbosity::kDETAILED},
};

namespace {

using nvinfer1::BuilderFlag;
using nvinfer1::MemoryPoolType;
using nvinfer1::OptProfileSelector;
using nvinfer1::PreviewFeature;
using nvinfer1::TacticSource;
using nvinfer1::TensorFormat;

const Names<TacticSource> tactic_source_words = {
#if TRTW_TRT_WEAK_TYPING
    {"cublas", TacticSource::kCUBLAS},
    {"cublas_lt", TacticSource::kCUBLAS_LT},
    {"cudnn", TacticSource::kCUDNN},
#endif
    {"edge_mask_convolutions", TacticSource::kEDGE_MASK_CONVOLUTIONS},
    {"jit_convolutions", TacticSource::kJIT_CONVOLUTIONS},
};

const Names<MemoryPoolType> memory_pool_words = {
    {"workspace", MemoryPoolType::kWORKSPACE},
    {"dla_managed_sram", MemoryPoolType::kDLA_MANAGED_SRAM},
    {"dla_local_dram", MemoryPoolType::kDLA_LOCAL_DRAM},
    {"dla_global_dram", MemoryPoolType::kDLA_GLOBAL_DRAM},
    {"tactic_dram", MemoryPoolType::kTACTIC_DRAM},
#if NV_TENSORRT_MAJOR >= 10
    {"tactic_shared_memory", MemoryPoolType::kTACTIC_SHARED_MEMORY},
#endif
};

const Names<PreviewFeature> preview_feature_words = {
#if NV_TENSORRT_MAJOR < 10
    {"faster_dynamic_shapes", PreviewFeature::kFASTER_DYNAMIC_SHAPES_0805},
    {"disable_external_tactic_sources_for_core", PreviewFeature::kDISABLE_EXTERNAL_TACTIC_SOURCES_FOR_CORE_0805},
#endif
#if TRTW_TRT_WEAK_TYPING
    {"profile_sharing", PreviewFeature::kPROFILE_SHARING_0806},
#endif
#if TRTW_IN_HEADERS(TRTW_TRT_ALIASED_PLUGIN_IO)
    {"aliased_plugin_io", PreviewFeature::kALIASED_PLUGIN_IO_10_03, TRTW_TRT_ALIASED_PLUGIN_IO},
#endif
#if TRTW_IN_HEADERS(TRTW_TRT_ACTIVATION_RESIZE)
    {"runtime_activation_resize", PreviewFeature::kRUNTIME_ACTIVATION_RESIZE_10_10, TRTW_TRT_ACTIVATION_RESIZE},
#endif
};

const Names<TensorFormat> format_words = {
    {"linear", TensorFormat::kLINEAR},     {"chw2", TensorFormat::kCHW2},
    {"hwc8", TensorFormat::kHWC8},         {"chw4", TensorFormat::kCHW4},
    {"chw16", TensorFormat::kCHW16},       {"chw32", TensorFormat::kCHW32},
    {"dhwc8", TensorFormat::kDHWC8},       {"cdhw32", TensorFormat::kCDHW32},
    {"hwc", TensorFormat::kHWC},           {"dla_linear", TensorFormat::kDLA_LINEAR},
    {"dla_hwc4", TensorFormat::kDLA_HWC4}, {"hwc16", TensorFormat::kHWC16},
    {"dhwc", TensorFormat::kDHWC},
};

void require(bool asked, bool present, const char* option) {
    if (asked && !present) {
        throw UsageProblem(version_in_words() + " has no " + std::string{option} + ".");
    }
}

#if NV_TENSORRT_MAJOR < 11
std::vector<std::int32_t> narrowed(const std::vector<std::int64_t>& values, const std::string& name) {
    std::vector<std::int32_t> narrow;
    for (const std::int64_t value : values) {
        narrow.push_back(static_cast<std::int32_t>(value));
        if (narrow.back() != value) {
            throw UsageProblem("Profile value " + std::to_string(value) + " of '" + name +
                               "' does not fit 32 bits, which " + version_in_words() + " uses.");
        }
    }
    return narrow;
}
#endif

bool accepts(nvinfer1::IOptimizationProfile& profile, const std::string& name, OptProfileSelector which,
             const std::vector<std::int64_t>& values) {
    const auto count = static_cast<std::int32_t>(values.size());
#if NV_TENSORRT_MAJOR >= 11
    return profile.setShapeValuesV2(name.c_str(), which, values.data(), count);
#else
#if TRTW_IN_HEADERS(TRTW_TRT_PROFILE_VALUES_V2)
    if (has(TRTW_TRT_PROFILE_VALUES_V2)) {
        return profile.setShapeValuesV2(name.c_str(), which, values.data(), count);
    }
#endif
    return profile.setShapeValues(name.c_str(), which, narrowed(values, name).data(), count);
#endif
}

void set_values(nvinfer1::IOptimizationProfile& profile, const std::string& name, OptProfileSelector which,
                const std::vector<std::int64_t>& values) {
    if (!accepts(profile, name, which, values)) {
        throw UsageProblem("TensorRT refused the profile values of '" + name + "'.");
    }
}

void add_profile(nvinfer1::IBuilder& builder, nvinfer1::IBuilderConfig& config, const Profile& wanted) {
    const LogCapture capture{logger().buffer()};
    nvinfer1::IOptimizationProfile* profile = builder.createOptimizationProfile();
    for (const auto& [name, range] : wanted.shapes) {
        const bool set = profile->setDimensions(name.c_str(), OptProfileSelector::kMIN, to_dims(range.min, name)) &&
                         profile->setDimensions(name.c_str(), OptProfileSelector::kOPT, to_dims(range.opt, name)) &&
                         profile->setDimensions(name.c_str(), OptProfileSelector::kMAX, to_dims(range.max, name));
        if (!set) {
            throw UsageProblem("TensorRT refused the profile of '" + name + "': " + capture.errors());
        }
    }
    for (const auto& [name, range] : wanted.values) {
        set_values(*profile, name, OptProfileSelector::kMIN, range.min);
        set_values(*profile, name, OptProfileSelector::kOPT, range.opt);
        set_values(*profile, name, OptProfileSelector::kMAX, range.max);
    }
    if (!profile->isValid() || config.addOptimizationProfile(profile) < 0) {
        throw UsageProblem("TensorRT refused an optimisation profile: " + capture.errors());
    }
}

// Makes dimensions static to which the profiles leave one value: TensorRT folds what depends on them and has faster
// kernels for them. Returns whether no input is dynamic any more and no profile is needed.
bool settle_inputs(nvinfer1::INetworkDefinition& network, const std::vector<Profile>& profiles) {
    bool all_static = true;
    for (const ProfileInput& input : profile_inputs(network)) {
        const std::vector<std::int64_t> shape = settled_shape(input, profiles);
        if (shape != input.shape) {
            find_network_io(network, input.name, "profiles").setDimensions(to_dims(shape, input.name));
        }
        all_static = all_static && !is_dynamic(shape) && !input.is_shape_tensor;
    }
    return all_static;
}

nvinfer1::ProfilingVerbosity verbosity_of(ProfilingVerbosity asked) {
    switch (asked) {
    case ProfilingVerbosity::none:
        return nvinfer1::ProfilingVerbosity::kNONE;
    case ProfilingVerbosity::layer_names_only:
        return nvinfer1::ProfilingVerbosity::kLAYER_NAMES_ONLY;
    case ProfilingVerbosity::detailed:
        break;
    }
    return nvinfer1::ProfilingVerbosity::kDETAILED;
}

#if TRTW_IN_HEADERS(TRTW_TRT_TILING)
nvinfer1::TilingOptimizationLevel tiling_of(TilingLevel asked) {
    switch (asked) {
    case TilingLevel::none:
        return nvinfer1::TilingOptimizationLevel::kNONE;
    case TilingLevel::fast:
        return nvinfer1::TilingOptimizationLevel::kFAST;
    case TilingLevel::moderate:
        return nvinfer1::TilingOptimizationLevel::kMODERATE;
    case TilingLevel::full:
        break;
    }
    return nvinfer1::TilingOptimizationLevel::kFULL;
}
#endif

void apply_kind(nvinfer1::IBuilderConfig& config, const BuildOptions& o) {
    if (o.hardware_compatibility == HardwareCompatibility::ampere_plus) {
        config.setHardwareCompatibilityLevel(nvinfer1::HardwareCompatibilityLevel::kAMPERE_PLUS);
    }
#if TRTW_IN_HEADERS(TRTW_TRT_SAME_COMPUTE_CAPABILITY)
    if (o.hardware_compatibility == HardwareCompatibility::same_compute_capability) {
        config.setHardwareCompatibilityLevel(nvinfer1::HardwareCompatibilityLevel::kSAME_COMPUTE_CAPABILITY);
    }
#endif
    const auto set = [&config](bool asked, BuilderFlag flag) {
        if (asked) {
            config.setFlag(flag);
        }
    };
    set(o.version_compatible, BuilderFlag::kVERSION_COMPATIBLE);
    set(o.exclude_lean_runtime, BuilderFlag::kEXCLUDE_LEAN_RUNTIME);
    set(o.refit == RefitKind::full, BuilderFlag::kREFIT);
    set(o.sparse_weights, BuilderFlag::kSPARSE_WEIGHTS);
    set(o.direct_io, BuilderFlag::kDIRECT_IO);
    set(o.gpu_fallback, BuilderFlag::kGPU_FALLBACK);
#if TRTW_TRT_STRIP_PLAN
    set(o.strip_weights, BuilderFlag::kSTRIP_PLAN);
    set(o.refit == RefitKind::identical, BuilderFlag::kREFIT_IDENTICAL);
    set(o.weight_streaming, BuilderFlag::kWEIGHT_STREAMING);
#endif
#if TRTW_IN_HEADERS(TRTW_TRT_REFIT_INDIVIDUAL)
    set(o.refit == RefitKind::individual, BuilderFlag::kREFIT_INDIVIDUAL);
#endif
#if TRTW_IN_HEADERS(TRTW_TRT_STRICT_NANS)
    set(o.strict_nans, BuilderFlag::kSTRICT_NANS);
#endif
#if TRTW_IN_HEADERS(TRTW_TRT_DISTRIBUTIVE_INDEPENDENCE)
    set(o.distributive_independence, BuilderFlag::kDISTRIBUTIVE_INDEPENDENCE);
#endif
    config.setProfilingVerbosity(verbosity_of(o.profiling_verbosity));
    if (o.dla_core) {
        config.setDefaultDeviceType(nvinfer1::DeviceType::kDLA);
        config.setDLACore(*o.dla_core);
    }
}

nvinfer1::TacticSources bit_of(const std::string& source) {
    return 1U << static_cast<std::uint32_t>(tactic_source_words.at(source, "tactic_sources"));
}

// TensorRT 8 fails in the middle of a build where a source is on and its library is missing, so sources that nobody
// asked for are switched off then. Returns warnings about those.
std::vector<std::string> apply_tactic_sources(nvinfer1::IBuilderConfig& config, const BuildOptions& o) {
    nvinfer1::TacticSources sources = config.getTacticSources();
    std::vector<std::string> warnings;
    const auto folder = library_status().libnvinfer.parent_path();
    for (const std::string& name : tactic_source_words.all()) {
        const auto asked = o.tactic_sources.find(name);
        const auto bit = bit_of(name);
        const bool on = asked != o.tactic_sources.end() ? asked->second : (sources & bit) != 0;
        const bool check = on && NV_TENSORRT_MAJOR < 10; // later versions do without these libraries
        const std::string problem = check ? tactic_library_problem(name, folder) : std::string{};
        if (!problem.empty() && asked != o.tactic_sources.end()) {
            throw ComponentMissing("The tactic source '" + name +
                                   "' was requested, but its library cannot be used: " + problem);
        }
        if (!problem.empty()) {
            warnings.push_back("the tactic source '" + name +
                               "' is off because its library cannot be used: " + problem);
        }
        sources = on && problem.empty() ? (sources | bit) : (sources & ~bit);
    }
    if (sources != config.getTacticSources()) {
        const LogCapture capture{logger().buffer()};
        if (!config.setTacticSources(sources)) {
            throw UsageProblem("TensorRT refused the tactic sources: " + capture.errors());
        }
    }
    return warnings;
}

void apply_search(nvinfer1::IBuilderConfig& config, const BuildOptions& o) {
    for (const auto& [name, bytes] : o.memory_pools) {
        config.setMemoryPoolLimit(memory_pool_words.at(name, "memory_pools"), bytes);
    }
    for (const auto& [name, on] : o.preview_features) {
        config.setPreviewFeature(preview_feature_words.at(name, "preview_features"), on);
    }
    if (o.optimization_level) {
        config.setBuilderOptimizationLevel(*o.optimization_level);
    }
    if (o.avg_timing_iterations) {
        config.setAvgTimingIterations(*o.avg_timing_iterations);
    }
    if (o.max_aux_streams) {
        config.setMaxAuxStreams(*o.max_aux_streams);
    }
#if TRTW_IN_HEADERS(TRTW_TRT_MAX_TACTICS)
    if (o.max_tactics) {
        config.setMaxNbTactics(*o.max_tactics);
    }
#endif
#if TRTW_IN_HEADERS(TRTW_TRT_TILING)
    if (o.tiling_optimization_level) {
        config.setTilingOptimizationLevel(tiling_of(*o.tiling_optimization_level));
    }
#endif
#if TRTW_IN_HEADERS(TRTW_TRT_BUILD_ROUTES)
    if (o.build_route && !config.setBuildRoute(o.build_route->c_str())) {
        throw UsageProblem("TensorRT refused the build route: " + *o.build_route);
    }
#endif
}

// TensorRT's own words tell neither the tensor nor what to do.
void check_format(const nvinfer1::ITensor& tensor, const std::string& name, nvinfer1::TensorFormats mask,
                  const BuildOptions& options) {
    const nvinfer1::DataType type = tensor.getType();
    if (mask == 1U << static_cast<std::uint32_t>(TensorFormat::kHWC8) && dtype_bits(type) != 16) {
        throw UsageProblem("io_formats: '" + name + "' is " + std::string{dtype_name(type)} +
                           ", and hwc8 is a format of fp16. Give it that type, too (io_types); in a strongly typed " +
                           "network insert a Cast into the ONNX model.");
    }
    if (!std::has_single_bit(mask) && options.profiles.size() > 1) {
        throw UsageProblem("io_formats: '" + name + "' has a choice of formats, and each profile could take another " +
                           "one. Name one format, or build an engine for each profile.");
    }
}

void apply_formats(const nvinfer1::INetworkDefinition& network, const BuildOptions& options) {
    for (const auto& [name, formats] : options.io_formats) {
        nvinfer1::TensorFormats mask = 0;
        for (const std::string& format : formats) {
            mask |= 1U << static_cast<std::uint32_t>(format_words.at(format, "io_formats"));
        }
        nvinfer1::ITensor& tensor = find_network_io(network, name, "io_formats");
        check_format(tensor, name, mask, options);
        tensor.setAllowedFormats(mask);
    }
}

} // namespace

void check_supported(const BuildOptions& o) {
    require(o.strip_weights, TRTW_TRT_STRIP_PLAN, "weight-stripped plans");
    require(o.refit == RefitKind::identical, TRTW_TRT_STRIP_PLAN, "refit 'identical'");
    require(o.refit == RefitKind::individual, has(TRTW_TRT_REFIT_INDIVIDUAL), "refit 'individual'");
    require(o.weight_streaming, TRTW_TRT_WEIGHT_STREAMING, "weight streaming");
    require(o.error_on_timing_cache_miss, TRTW_TRT_STRICT_TIMING_CACHE, "error on a timing cache miss");
    require(o.editable_timing_cache, has(TRTW_TRT_EDITABLE_TIMING_CACHE), "editable timing cache");
    require(o.max_tactics.has_value(), has(TRTW_TRT_MAX_TACTICS), "limit on the number of tactics");
    require(o.tiling_optimization_level.has_value(), has(TRTW_TRT_TILING), "tiling optimisation");
    require(o.build_route.has_value(), has(TRTW_TRT_BUILD_ROUTES), "build routes");
    require(o.strict_nans, has(TRTW_TRT_STRICT_NANS), "strict handling of NaN");
    require(o.distributive_independence, has(TRTW_TRT_DISTRIBUTIVE_INDEPENDENCE), "distributive independence");
    require(o.hardware_compatibility == HardwareCompatibility::same_compute_capability,
            has(TRTW_TRT_SAME_COMPUTE_CAPABILITY), "hardware compatibility 'same_compute_capability'");
    for (const auto& [name, bytes] : o.memory_pools) {
        static_cast<void>(memory_pool_words.at(name, "memory_pools"));
        static_cast<void>(bytes);
    }
    for (const auto& [name, on] : o.tactic_sources) {
        static_cast<void>(tactic_source_words.at(name, "tactic_sources"));
        static_cast<void>(on);
    }
    for (const auto& [name, on] : o.preview_features) {
        static_cast<void>(preview_feature_words.at(name, "preview_features"));
        static_cast<void>(on);
    }
}

void apply_profiles(nvinfer1::IBuilder& builder, nvinfer1::INetworkDefinition& network,
                    nvinfer1::IBuilderConfig& config, const BuildOptions& options) {
    std::vector<Profile> profiles = options.profiles;
    validate_profiles(profiles, profile_inputs(network));
    // Calibration data has shapes of its own.
    if (!options.calibration && settle_inputs(network, profiles)) {
        profiles.clear();
    }
    for (const Profile& profile : profiles) {
        add_profile(builder, config, profile);
    }
    // Without a profile TensorRT builds such an engine, but then makes no context of it (pytorch/TensorRT#2516).
    if (profiles.empty() && has_open_shapes(network)) {
        add_profile(builder, config, fixed_profile(profile_inputs(network)));
#if NV_TENSORRT_MAJOR < 10
        // as later versions always do: nobody chose this profile, so it may not limit the engine to one context
        config.setPreviewFeature(PreviewFeature::kPROFILE_SHARING_0806, true);
#endif
    }
}

std::vector<std::string> apply_options(nvinfer1::INetworkDefinition& network, nvinfer1::IBuilderConfig& config,
                                       const BuildOptions& options,
                                       std::unique_ptr<nvinfer1::ITimingCache>& timing_cache) {
    apply_kind(config, options);
    apply_search(config, options);
    std::vector<std::string> warnings = apply_tactic_sources(config, options);
    apply_formats(network, options);
    if (!options.plugins_to_serialize.empty()) {
        std::vector<std::string> opened;
        std::ranges::transform(options.plugins_to_serialize, std::back_inserter(opened), plugin_path);
        std::vector<const char*> paths;
        std::ranges::transform(opened, std::back_inserter(paths), &std::string::c_str);
        config.setPluginsToSerialize(paths.data(), static_cast<std::int32_t>(paths.size()));
    }
    const auto more = apply_timing_cache(config, options, timing_cache);
    warnings.insert(warnings.end(), more.begin(), more.end());
    return warnings;
}

std::vector<std::string> tactic_source_names() {
    return tactic_source_words.all();
}

std::vector<std::string> tactic_source_names_in(nvinfer1::TacticSources mask) {
    std::vector<std::string> names;
    for (const std::string& name : tactic_source_words.all()) {
        if ((mask & bit_of(name)) != 0) {
            names.push_back(name);
        }
    }
    return names;
}

std::vector<std::string> memory_pool_names() {
    return memory_pool_words.all();
}

std::vector<std::string> preview_feature_names() {
    return preview_feature_words.all();
}

std::vector<std::string> io_format_names() {
    return format_words.all();
}

} // namespace trtw
