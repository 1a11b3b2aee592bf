// Opens TensorRT's libraries at run time; nothing of TensorRT is linked.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace trtw {

/// What is loaded, or why nothing is.
struct LibraryStatus {
    bool available = false;
    std::string version; ///< of libnvinfer; empty where none was opened
    std::string headers; ///< of the headers that the core was built with; empty without them
    std::filesystem::path libnvinfer;
    std::filesystem::path parser;
    std::filesystem::path plugin;
    std::string error; ///< why `available` is false
    std::vector<std::string>
        notes; ///< what is missing without being fatal, and where the headers are of another version
};

/// Opens the libraries once for the whole process; later calls return the same. Thread-safe.
/// With `plugins`, libnvinfer_plugin is opened and its layers are registered.
/// Throws ComponentMissing where libnvinfer is absent or of another major version than the headers, and UsageProblem
/// where another folder is asked for than the one in use: a process holds one TensorRT.
LibraryStatus load_library(const std::filesystem::path& folder = {}, bool plugins = true);

/// As load_library, but a failure is told in `error`. A successful call loads the libraries.
LibraryStatus library_status(const std::filesystem::path& folder = {}) noexcept;

} // namespace trtw
