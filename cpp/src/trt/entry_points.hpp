// TensorRT's C entry points, and how its libraries are found.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace trtw {

/// TensorRT's C entry points. `void*` stands for the C++ classes, which need its headers (see api.hpp).
struct EntryPoints {
    void* (*create_builder)(void* logger, std::int32_t version) = nullptr;
    void* (*create_runtime)(void* logger, std::int32_t version) = nullptr;
    void* (*create_refitter)(void* engine, void* logger, std::int32_t version) = nullptr;
    void* (*create_parser)(void* network, void* logger, int version) = nullptr;                    ///< may be null
    void* (*create_parser_refitter)(void* refitter, void* logger, std::int32_t version) = nullptr; ///< may be null
    bool (*init_plugins)(void* logger, const char* plugin_namespace) = nullptr;                    ///< may be null
};

/// The entry points of the loaded library; loads it from the default places where needed.
const EntryPoints& entry_points();

/// Decodes getInferLibVersion(): 8600 is 8.6.0, 101601 is 10.16.1.
std::string version_text(std::int32_t number);

/// Whether a version that getInferLibVersion() tells is the given one or a later one.
bool is_at_least(std::int32_t version, int major, int minor) noexcept;

/// Whether code compiled against the headers of one version can use the library of another: of the same major version,
/// and 8.6 or later.
bool can_use(std::int32_t headers, std::int32_t library) noexcept;

/// What getInferLibVersion() of the library in use tells; 0 before one is open.
std::int32_t library_version() noexcept;

/// The file names under which a TensorRT library of one major version may lie in a folder, best first.
/// `stem` is "nvinfer", "nvinfer_plugin" or "nvonnxparser"; only files that exist are returned.
std::vector<std::filesystem::path> library_files(const std::filesystem::path& folder, std::string_view stem, int major);

/// What to hand to dlopen for libnvinfer, in order. An explicit folder is the only place that counts; without
/// one it is `tensorrt_home`/lib and then the loader's own search path (bare names).
std::vector<std::string> search_order(const std::filesystem::path& explicit_folder,
                                      const std::filesystem::path& tensorrt_home, const std::vector<int>& majors);

/// Distinct paths in a /proc/<pid>/maps text whose file name starts with the prefix.
std::vector<std::string> mapped_files(std::istream& maps, std::string_view prefix);

/// Distinct libnvinfer files that this process has mapped.
std::vector<std::string> mapped_tensorrt();

} // namespace trtw
