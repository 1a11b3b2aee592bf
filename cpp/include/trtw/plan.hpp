// A deserialised engine with the runtime that made it, and the table of its tensors.
#pragma once

#include "trtw/detail/call_gate.hpp"
#include "trtw/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

// Named only: what runs an engine is compiled without TensorRT's headers in the unit tests.
namespace nvinfer1 {
class ICudaEngine;
class IExecutionContext;
class IRuntime;
} // namespace nvinfer1

namespace trtw {

/// Bytes of device memory; automatic is what TensorRT chooses by the free memory of the device.
enum class WeightBudget : std::int64_t { automatic = -1 };

/// Why a plan that streams weights runs without CUDA graphs.
constexpr const char* no_graph_of_streamed_weights = "the engine streams weights, which a graph cannot hold";

struct PlanOptions {
#define TRTW_OPTION(name, value, doc, ...) __VA_ARGS__ name = value;
#include "trtw/plan_options.def"
#undef TRTW_OPTION
};

/// Throws UsageProblem for options that are wrong or that this TensorRT version does not have.
void check_plan_options(const PlanOptions& options);

/// Immutable and shared: runners and benches keep it alive.
class Plan {
public:
    /// Deserialises. The bytes may go afterwards. A plan is code: load none whose origin you do not trust.
    /// Throws UsageProblem where the bytes are no plan, or a plan of another TensorRT version or GPU, or damaged, or
    /// where an option does not fit it; ComponentMissing without libnvinfer or a plugin's needs; DeviceFailure without
    /// a usable GPU or memory.
    static std::shared_ptr<Plan> load(std::span<const std::byte> bytes, const PlanOptions& options);

    [[nodiscard]] nvinfer1::ICudaEngine& engine() const noexcept { return *engine_; }
    [[nodiscard]] const std::vector<TensorInfo>& inputs() const noexcept { return inputs_; }
    [[nodiscard]] const std::vector<TensorInfo>& outputs() const noexcept { return outputs_; }
    /// Inputs and outputs in the engine's own order.
    [[nodiscard]] const std::vector<TensorInfo>& tensors() const noexcept { return tensors_; }
    [[nodiscard]] int num_profiles() const noexcept { return num_profiles_; }
    /// Scratch memory that one execution context needs, for any profile.
    [[nodiscard]] std::size_t device_memory_bytes() const noexcept { return device_memory_bytes_; }
    /// JSON text of a header before the plan; empty without one.
    [[nodiscard]] const std::string& metadata() const noexcept { return metadata_; }
    [[nodiscard]] int device() const noexcept { return device_; }
    /// Whether weights are copied from the host while it runs, which no CUDA graph can hold.
    [[nodiscard]] bool streams_weights() const noexcept { return streams_weights_; }
    /// The input whose memory an output has to share (TensorRT 10.15 and later), by their indices; nullopt for none.
    [[nodiscard]] std::optional<std::size_t> aliased_input(std::size_t output) const noexcept {
        return index_of(inputs_, outputs_[output].aliased_input); // no tensor has an empty name
    }
    /// What runs the engine is a call here, what gives it other weights closes it: TensorRT leaves a refit undefined
    /// while work of the engine is enqueued.
    [[nodiscard]] CallGate& gate() const noexcept { return gate_; }
    /// Held while a context is made or changes its profile: they share the engine's list of profiles in use.
    [[nodiscard]] std::recursive_mutex& context_mutex() const noexcept { return context_mutex_; }

protected: // for the double of the unit tests
    explicit Plan(int num_profiles) : num_profiles_{num_profiles} {}
    bool streams_weights_ = false;
    void add_tensor(TensorInfo tensor) {
        (tensor.is_input ? inputs_ : outputs_).push_back(tensor);
        tensors_.push_back(std::move(tensor));
    }

private:
    Plan() = default;
    void read_tensors();

    // In this order: the engine must go before its runtime.
    std::shared_ptr<nvinfer1::IRuntime> runtime_;
    std::shared_ptr<nvinfer1::ICudaEngine> engine_;
    std::vector<TensorInfo> inputs_;
    std::vector<TensorInfo> outputs_;
    std::vector<TensorInfo> tensors_;
    int num_profiles_ = 1;
    std::size_t device_memory_bytes_ = 0;
    std::string metadata_;
    int device_ = 0;
    mutable CallGate gate_;
    mutable std::recursive_mutex context_mutex_; ///< recursive: a context that fails to be made goes while it is held
};

/// What TensorRT's log says about a plan that it refused, as one paragraph. `library` is "TensorRT 8.6.0 (path)".
std::string explain_refusal(const std::string& log, const std::string& library);

} // namespace trtw
