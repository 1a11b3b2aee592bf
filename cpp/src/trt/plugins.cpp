#include "trt/plugins.hpp"

#include "trt/entry_points.hpp"
#include "trt/logger.hpp"
#include "trt/regular_file.hpp"
#include "trt/version.hpp"
#include "trtw/error.hpp"

#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>

namespace trtw {

namespace {

// Open until the process ends, as the library itself is.
const RegularFile& opened(const std::string& given) {
    static std::mutex mutex;
    static auto& files = *new std::map<std::string, std::unique_ptr<RegularFile>>;
    auto file = std::make_unique<RegularFile>(given, "The plugin library");
    const std::string identity = file->identity();
    const std::scoped_lock lock{mutex};
    return *files.try_emplace(identity, std::move(file)).first->second;
}

// The one place where a patch release moved a method: 8.6.0, an early access, has another order in the registry
// than 8.6.1.
void check_registry() {
    constexpr std::int32_t early_access = 8600;
    if ((library_version() == early_access) != (TRTW_TRT_VERSION == early_access)) {
        throw ComponentMissing(
            "TensorRT 8.6.0 and 8.6.1 have different plugin registries: to load plugins, rebuild the "
            "core (`build-native`) with the headers of the library, " +
            version_text(library_version()) + ".");
    }
}

void load_plugin(nvinfer1::IPluginRegistry& registry, const std::string& given) {
    const RegularFile& file = opened(given);
    const std::string path = file.descriptor_path();
    void* handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) {
        const char* reason = dlerror();
        throw ComponentMissing(
            "A plugin library could not be opened: " + std::string{reason != nullptr ? reason : "no reason given"} +
            ". Library: " + file.name());
    }
    // Never closed: layers of networks and engines may run its code until the process ends.
    if (dlsym(handle, "getPluginCreators") == nullptr && dlsym(handle, "getCreators") == nullptr) {
        return;
    }
    check_registry();
    const LogCapture capture{logger().buffer()};
    if (registry.loadLibrary(path.c_str()) == nullptr) {
        const std::string reason = capture.errors();
        throw ComponentMissing("TensorRT's plugin registry refused a library: " +
                               (reason.empty() ? std::string{"no reason given"} : reason) +
                               ". Library: " + file.name());
    }
}

} // namespace

std::string plugin_path(const std::string& given) {
    return opened(given).descriptor_path();
}

void load_plugins(nvinfer1::IPluginRegistry& registry, const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
        load_plugin(registry, path);
    }
}

} // namespace trtw
