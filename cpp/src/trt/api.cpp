#include "trt/api.hpp"

#include "device/status.hpp"
#include "trt/entry_points.hpp"
#include "trt/logger.hpp"
#include "trt/version.hpp"
#include "trtw/error.hpp"
#include "trtw/library.hpp"

namespace trtw {

namespace {

template <class Object, class Create>
Object* create(const char* what, Create&& call) {
    const LogCapture capture{logger().buffer()};
    void* object = call();
    if (object == nullptr) {
        std::string reason = capture.errors();
        if (reason.empty()) {
            // Without a usable GPU TensorRT only warns.
            const DeviceStatus gpu = device_status();
            const auto warnings = capture.warnings();
            reason = !gpu.ok ? "no GPU can be used: " + gpu.error + ". `trtw doctor` shows the driver"
                             : (warnings.empty() ? "it gave no reason" : warnings.back());
        }
        throw DeviceFailure(std::string{"TensorRT could not create "} + what + ": " + reason);
    }
    return static_cast<Object*>(object);
}

} // namespace

// Each is told that the caller is of the library's own version: nothing that came later is called (trt/version.hpp).
std::unique_ptr<nvinfer1::IBuilder> create_builder() {
    const EntryPoints& entry = entry_points();
    if (entry.create_builder == nullptr) {
        throw ComponentMissing("This libnvinfer has no builder (a lean or dispatch runtime?); install the full one.");
    }
    return std::unique_ptr<nvinfer1::IBuilder>{
        create<nvinfer1::IBuilder>("a builder", [&] { return entry.create_builder(&logger(), library_version()); })};
}

std::shared_ptr<nvinfer1::IRuntime> create_runtime() {
    const EntryPoints& entry = entry_points();
    return std::shared_ptr<nvinfer1::IRuntime>{
        create<nvinfer1::IRuntime>("a runtime", [&] { return entry.create_runtime(&logger(), library_version()); })};
}

std::unique_ptr<nvinfer1::IRefitter> create_refitter(nvinfer1::ICudaEngine& engine) {
    const EntryPoints& entry = entry_points();
    if (entry.create_refitter == nullptr) {
        throw ComponentMissing("This libnvinfer has no refitter; install the full TensorRT runtime.");
    }
    return std::unique_ptr<nvinfer1::IRefitter>{create<nvinfer1::IRefitter>(
        "a refitter", [&] { return entry.create_refitter(&engine, &logger(), library_version()); })};
}

std::unique_ptr<nvinfer1::IExecutionContext> create_context(nvinfer1::ICudaEngine& engine) {
#if NV_TENSORRT_MAJOR >= 10
    return std::unique_ptr<nvinfer1::IExecutionContext>{
        engine.createExecutionContext(nvinfer1::ExecutionContextAllocationStrategy::kUSER_MANAGED)};
#else
    return std::unique_ptr<nvinfer1::IExecutionContext>{engine.createExecutionContextWithoutDeviceMemory()};
#endif
}

std::unique_ptr<nvonnxparser::IParser> create_parser(nvinfer1::INetworkDefinition& network) {
    const EntryPoints& entry = entry_points();
    if (entry.create_parser == nullptr) {
        const LibraryStatus status = library_status();
        throw ComponentMissing("libnvonnxparser could not be opened next to libnvinfer; run `setup-tensorrt`. " +
                               (status.notes.empty() ? std::string{} : status.notes.front()));
    }
    return std::unique_ptr<nvonnxparser::IParser>{create<nvonnxparser::IParser>(
        "an ONNX parser", [&] { return entry.create_parser(&network, &logger(), NV_ONNX_PARSER_VERSION); })};
}

} // namespace trtw
