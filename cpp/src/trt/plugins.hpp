// Plugin libraries named by the user.
#pragma once

#include <NvInfer.h>

#include <string>
#include <vector>

namespace trtw::engine {

/// Opens plugin libraries, so that the parser finds their layers. A library with TensorRT's creator entry points goes
/// through the plugin registry; any other is opened and has to register its plugins by static objects.
/// Throws UsageProblem for a path that is no file, ComponentMissing where the loader refuses it.
/// A plugin is native code that runs in this process: load none whose origin you do not trust.
void load_plugins(nvinfer1::IPluginRegistry& registry, const std::vector<std::string>& paths);

} // namespace trtw::engine
