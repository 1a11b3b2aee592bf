#include "trt/plugins.hpp"

#include "trt/logger.hpp"
#include "trtw/error.hpp"

#include <dlfcn.h>
#include <filesystem>

namespace fs = std::filesystem;

namespace trtw::engine {

namespace {

void load_plugin(nvinfer1::IPluginRegistry& registry, const std::string& given) {
    std::error_code error;
    const fs::path path = fs::canonical(given, error);
    if (error || !fs::is_regular_file(path)) {
        throw UsageProblem("No such plugin library: " + given);
    }
    void* handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) {
        const char* reason = dlerror();
        throw ComponentMissing(
            "A plugin library could not be opened: " + std::string{reason != nullptr ? reason : "no reason given"} +
            ". Library: " + path.string());
    }
    // Never closed: layers of networks and engines may run its code until the process ends.
    if (dlsym(handle, "getPluginCreators") == nullptr && dlsym(handle, "getCreators") == nullptr) {
        return;
    }
    const LogCapture capture{logger().buffer()};
    if (registry.loadLibrary(path.c_str()) == nullptr) {
        const std::string reason = capture.errors();
        throw ComponentMissing("TensorRT's plugin registry refused a library: " +
                               (reason.empty() ? std::string{"no reason given"} : reason) +
                               ". Library: " + path.string());
    }
}

} // namespace

void load_plugins(nvinfer1::IPluginRegistry& registry, const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
        load_plugin(registry, path);
    }
}

} // namespace trtw::engine
