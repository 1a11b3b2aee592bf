#include "trtw/builder.hpp"

#include "build/builder_config.hpp"
#include "build/calibrator.hpp"
#include "build/network.hpp"
#include "build/onnx_parser.hpp"
#include "build/precision.hpp"
#include "build/progress.hpp"
#include "build/timing_cache.hpp"
#include "device/scope.hpp"
#include "device/status.hpp"
#include "trt/api.hpp"
#include "trt/failure.hpp"
#include "trt/host_memory.hpp"
#include "trt/logger.hpp"
#include "trt/plugins.hpp"
#include "trtw/error.hpp"
#include "trtw/library.hpp"

#include <chrono>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace trtw {

namespace {

class Stopwatch {
public:
    [[nodiscard]] double seconds() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    }

private:
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Everything that has to live until the plan is serialised, in the order of construction.
class Build {
public:
    Build(const std::string& model_path, const BuildOptions& options, Progress& progress)
        : model_path_{model_path}, options_{options}, progress_{progress} {}

    BuildResult run() {
        prepare();
        parse();
        configure();
        serialize();
        describe();
        keep_builder();
        return std::move(result_);
    }

private:
    void prepare() {
        builder_ = create_builder();
        if (options_.max_threads) {
            builder_->setMaxThreads(*options_.max_threads);
        }
        load_plugins(builder_->getPluginRegistry(), options_.plugins);
        network_ = create_network(*builder_, options_.strongly_typed);
        config_.reset(builder_->createBuilderConfig());
        if (!config_) {
            raise_device("creating a builder configuration", capture_.errors());
        }
    }

    void parse() {
        report("parse", 0, 1);
        const Stopwatch watch;
        // A plan for other versions may not depend on the plugin library.
        const auto native_norm = options_.version_compatible && !options_.native_instance_norm
                                     ? std::optional{true}
                                     : options_.native_instance_norm;
        parser_ = parse_onnx(*network_, model_path_, native_norm);
        result_.parse_s = watch.seconds();
        report("parse", 1, 1);
    }

    void configure() {
        check_precision_of(network_types(*network_), options_);
        apply_profiles(*builder_, *network_, *config_, options_);
        apply_precision(*network_, *config_, options_);
        result_.warnings = apply_options(*network_, *config_, options_, timing_cache_);
        apply_calibration();
#if TRTW_TRT_PROGRESS_MONITOR
        monitor_ = std::make_unique<ProgressMonitor>(progress_);
        config_->setProgressMonitor(monitor_.get());
#endif
    }

#if TRTW_TRT_WEAK_TYPING
    void apply_calibration() {
        if (!options_.calibration) {
            return;
        }
        feed_ = std::make_unique<CalibrationFeed>(*options_.calibration, network_inputs(*network_), progress_);
        calibrator_ = make_calibrator(options_.calibration->algorithm, *feed_);
        config_->setInt8Calibrator(calibrator_.get());
        const auto shapes = feed_->shapes();
        if (options_.profiles.empty() || shapes.empty()) {
            return;
        }
        nvinfer1::IOptimizationProfile* profile = builder_->createOptimizationProfile();
        for (const auto& [name, shape] : shapes) {
            for (const auto which : {nvinfer1::OptProfileSelector::kMIN, nvinfer1::OptProfileSelector::kOPT,
                                     nvinfer1::OptProfileSelector::kMAX}) {
                profile->setDimensions(name.c_str(), which, to_dims(shape, name));
            }
        }
        if (!config_->setCalibrationProfile(profile)) {
            throw UsageProblem("TensorRT refused the shapes of the calibration data: " + capture_.errors());
        }
    }
#else
    void apply_calibration() {}
#endif

    void serialize() {
#if !TRTW_TRT_PROGRESS_MONITOR
        report("build", 0, 0); // nobody can tell how many steps there will be
#endif
        const Stopwatch watch;
        result_.plan = shared_bytes(builder_->buildSerializedNetwork(*network_, *config_));
        result_.build_s = watch.seconds();
        progress_.throw_if_ended();
        if (!result_.plan) {
            throw_build_problem();
        }
#if !TRTW_TRT_PROGRESS_MONITOR
        report("build", 1, 1);
#endif
        if (!options_.disable_timing_cache) {
            result_.timing_cache = serialized_timing_cache(*config_);
        }
    }

    void describe() {
#if TRTW_TRT_WEAK_TYPING
        if (feed_) {
            result_.calibration_cache = feed_->cache();
        }
#endif
        result_.layer_count = network_->getNbLayers();
        result_.inputs = network_inputs(*network_);
        result_.outputs = network_outputs(*network_);
        result_.skipped_tactics = capture_.count("Skipping tactic") + capture_.count("skipping tactic");
        const auto warnings = capture_.warnings();
        result_.warnings.insert(result_.warnings.end(), warnings.begin(), warnings.end());
    }

    // It belongs to the result from now on, and so outlives network and configuration, as it has to.
    void keep_builder() {
        if (result_.timing_cache) {
            result_.merger = std::make_shared<TimingCacheMerger>(std::move(builder_), options_.device);
        }
    }

    void report(std::string_view phase, int step, int total) {
        progress_.report(phase, step, total);
        progress_.throw_if_ended();
    }

    [[noreturn]] void throw_build_problem() const {
        std::string log = capture_.errors();
        if (log.empty()) {
            log = "no reason given";
        }
        const std::string text = version_in_words() + " could not build the engine: " + log;
        raise_if_device("building the engine", log,
                        ". Free GPU memory or lower the workspace limit. Model: " + model_path_);
        if (speaks_of_device(log)) {
            throw DeviceFailure(text + ". Model: " + model_path_);
        }
        throw UsageProblem(text + ". Model: " + model_path_);
    }

    const std::string& model_path_;
    const BuildOptions& options_;
    Progress& progress_;
    LogCapture capture_{logger().buffer()};
    BuildResult result_;
    std::unique_ptr<nvinfer1::IBuilder> builder_;
    std::unique_ptr<nvinfer1::INetworkDefinition> network_;
    std::unique_ptr<nvonnxparser::IParser> parser_;
#if TRTW_TRT_WEAK_TYPING
    std::unique_ptr<CalibrationFeed> feed_;
    std::unique_ptr<nvinfer1::IInt8Calibrator> calibrator_;
#endif
#if TRTW_TRT_PROGRESS_MONITOR
    std::unique_ptr<ProgressMonitor> monitor_;
#endif
    std::unique_ptr<nvinfer1::ITimingCache> timing_cache_; // outlives the configuration, which refers to it
    std::unique_ptr<nvinfer1::IBuilderConfig> config_;
};

void check_device(int index) {
    const DeviceStatus status = device_status();
    if (!status.ok) {
        throw DeviceFailure("No GPU can be used, but TensorRT builds on the GPU that the engine is for: " +
                            status.error + ". `trtw doctor` shows the driver.");
    }
    if (index >= status.device_count) {
        throw UsageProblem("Device " + std::to_string(index) + " does not exist: this process sees " +
                           std::to_string(status.device_count) + ".");
    }
}

} // namespace

BuilderHold::BuilderHold(int device) : device_{device} {
    load_library();
    check_device(device);
    const DeviceScope scope{device};
    builder_ = create_builder();
}

BuilderHold::~BuilderHold() = default;

void BuilderHold::close() {
    if (builder_) {
        const DeviceScope scope{device_};
        builder_.reset();
    }
}

BuildResult build_engine(const std::string& model_path, const BuildOptions& options, const ProgressCallback& callback) {
    validate(options);
    load_library(); // its version counts
    check_supported(options);
    check_precision_supported(options);
    check_device(options.device);
    const DeviceScope scope{options.device};
    Progress progress{callback};
    return Build{model_path, options, progress}.run();
}

} // namespace trtw
