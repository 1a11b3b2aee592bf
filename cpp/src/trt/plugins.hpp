// Plugin libraries named by the user.
#pragma once

#include <NvInfer.h>

#include <string>
#include <vector>

namespace trtw {

/// Opens plugin libraries, so that the parser finds their layers. A library with TensorRT's creator entry points goes
/// through the plugin registry; any other is opened and has to register its plugins by static objects.
/// Each is opened once a process and then loaded through its descriptor, so that what it was opened as is what runs.
/// Throws UsageProblem for a path that is no file, ComponentMissing where the loader refuses it.
/// A plugin is native code that runs in this process: load none whose origin you do not trust.
void load_plugins(nvinfer1::IPluginRegistry& registry, const std::vector<std::string>& paths);

/// The path by which TensorRT gets a plugin library: that of its open descriptor, the same for the whole process.
std::string plugin_path(const std::string& given);

} // namespace trtw
