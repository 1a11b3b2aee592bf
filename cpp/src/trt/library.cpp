#include "trtw/library.hpp"

#include "trt/entry_points.hpp"
#include "trt/joined.hpp"
#include "trt/standard_library.hpp"
#include "trtw/error.hpp"

#ifdef TRTW_WITH_TENSORRT
#include "trt/logger.hpp"
#include "trt/version.hpp"
#endif

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>

namespace fs = std::filesystem;

namespace trtw {

namespace {

#ifdef TRTW_WITH_TENSORRT
constexpr std::int32_t header_version = TRTW_TRT_VERSION;
#else
constexpr std::int32_t header_version = 0;
#endif

int major_of(std::int32_t number) {
    return number >= 100000 ? number / 10000 : number / 1000;
}

std::vector<int> accepted_majors() {
    if (header_version != 0) {
        return {major_of(header_version)};
    }
    return {11, 10, 8};
}

struct State {
    std::mutex mutex;
    void* nvinfer = nullptr;
    void* parser = nullptr;
    void* plugin = nullptr;
    bool plugins_registered = false;
    std::atomic<std::int32_t> version = 0; ///< read without the mutex, too
    fs::path nvinfer_path;
    fs::path parser_path;
    fs::path plugin_path;
    std::string parser_error;
    std::string plugin_error;
    EntryPoints entry;
};

// Never destroyed: TensorRT's own static objects may outlive any order that could be arranged here.
State& state() {
    static State& instance = *new State; // NOLINT(cppcoreguidelines-owning-memory)
    return instance;
}

std::string last_dl_error() {
    const char* text = dlerror();
    return text != nullptr ? text : "unknown error of the dynamic loader";
}

// The name in "libfoo.so.1: cannot open shared object file", the loader's words for a missing dependency.
std::string missing_dependency(const std::string& error) {
    const auto colon = error.find(": cannot open shared object file");
    return colon == std::string::npos ? std::string{} : error.substr(0, colon);
}

// dlopen, with dependencies taken from the library's own folder where the loader does not find them:
// archives and unpacked wheels are often used without LD_LIBRARY_PATH.
void* open_library(const std::string& file, std::string& error) {
    const fs::path folder = fs::path{file}.parent_path();
    for (int attempt = 0; attempt < 16; ++attempt) {
        if (void* handle = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
            return handle;
        }
        error = last_dl_error();
        const std::string missing = missing_dependency(error);
        if (folder.empty() || missing.empty() || missing.find('/') != std::string::npos ||
            !fs::exists(folder / missing)) {
            return nullptr;
        }
        if (dlopen((folder / missing).c_str(), RTLD_LAZY | RTLD_GLOBAL) == nullptr) {
            error = last_dl_error();
            return nullptr;
        }
    }
    return nullptr;
}

template <class Function>
Function symbol(void* handle, const char* name) {
    return reinterpret_cast<Function>(dlsym(handle, name));
}

fs::path file_of(const void* address, const std::string& fallback) {
    Dl_info info{};
    if (address != nullptr && dladdr(address, &info) != 0 && info.dli_fname != nullptr) {
        std::error_code ignored;
        const fs::path real = fs::canonical(info.dli_fname, ignored);
        return ignored ? fs::path{info.dli_fname} : real;
    }
    return fallback;
}

std::string listed(const std::vector<std::string>& parts) {
    return parts.empty() ? "none" : joined(parts);
}

fs::path home_from_environment() {
    const char* home = std::getenv("TENSORRT_HOME");
    return home != nullptr ? fs::path{home} : fs::path{};
}

// What a core built with these headers can use; 8.6 was the last of version 8.
std::string usable() {
    const int major = major_of(header_version);
    return "the core was built with the headers of " + version_text(header_version) + " and needs TensorRT " +
           (major == 8 ? "8.6" : std::to_string(major)) +
           ". Rebuild the core (`build-native`) with the library's headers, or use such a library";
}

// The library of another major version in a folder that has none of this core's; empty where there is none.
fs::path other_major(const fs::path& folder) {
    const int own = major_of(header_version);
    if (header_version == 0 || folder.empty() || !library_files(folder, "nvinfer", own).empty()) {
        return {};
    }
    for (const int major : {8, 9, 10, 11, 12}) {
        if (const auto found = library_files(folder, "nvinfer", major); !found.empty()) {
            return found.front();
        }
    }
    return {};
}

[[noreturn]] void throw_not_found(const fs::path& folder, const std::string& reason) {
    const fs::path home = home_from_environment();
    if (const fs::path other = other_major(folder.empty() && !home.empty() ? home / "lib" : folder); !other.empty()) {
        throw ComponentMissing("libnvinfer is of another major version, but " + usable() +
                               ". Library: " + other.string());
    }
    const std::string where = folder.empty() ? "$TENSORRT_HOME/lib and the loader's path" : folder.string();
    throw ComponentMissing("libnvinfer (TensorRT) could not be opened: " + reason +
                           ". Run `setup-tensorrt`, or name the folder that holds it. Searched: " + where);
}

// Opening TensorRT all the same may crash the process, at once or much later.
void check_standard_library() {
    if (has_static_libstdcxx()) {
        throw ComponentMissing(
            "The core is linked statically with libstdc++, and TensorRT loads libstdc++.so.6: two copies of it "
            "in one process crash. Build the core again (`build-native`) with a compiler that links "
            "libstdc++ dynamically, such as CXX=g++, and without -static-libstdc++. Built: " +
            file_of(reinterpret_cast<void*>(&check_standard_library), "unknown").string());
    }
}

void open_nvinfer(State& s, const fs::path& folder) {
    check_standard_library();
    std::string reason = "no such file";
    for (const std::string& candidate : search_order(folder, home_from_environment(), accepted_majors())) {
        void* handle = open_library(candidate, reason);
        if (handle == nullptr) {
            continue;
        }
        const auto version = symbol<std::int32_t (*)()>(handle, "getInferLibVersion");
        if (version == nullptr) {
            reason = candidate + " has no getInferLibVersion";
            dlclose(handle);
            continue;
        }
        const std::int32_t number = version();
        const fs::path path = file_of(reinterpret_cast<void*>(version), candidate);
        if (header_version != 0 && !can_use(header_version, number)) {
            const std::string mapped = listed(mapped_tensorrt());
            dlclose(handle);
            throw ComponentMissing("libnvinfer is TensorRT " + version_text(number) + ", but " + usable() +
                                   ". Mapped in this process: " + mapped + ". Library: " + path.string());
        }
        s.entry.create_builder = symbol<decltype(s.entry.create_builder)>(handle, "createInferBuilder_INTERNAL");
        s.entry.create_runtime = symbol<decltype(s.entry.create_runtime)>(handle, "createInferRuntime_INTERNAL");
        s.entry.create_refitter = symbol<decltype(s.entry.create_refitter)>(handle, "createInferRefitter_INTERNAL");
        if (s.entry.create_runtime == nullptr) {
            dlclose(handle);
            throw ComponentMissing("libnvinfer has no createInferRuntime_INTERNAL; it is not a TensorRT library: " +
                                   path.string());
        }
        s.nvinfer = handle;
        s.version = number;
        s.nvinfer_path = path;
        return;
    }
    throw_not_found(folder, reason);
}

// Opens a companion of libnvinfer: from its folder, else by name from the loader's path.
void* open_companion(const State& s, std::string_view stem, fs::path& path, std::string& error) {
    const int major = major_of(s.version);
    std::vector<std::string> candidates;
    for (const fs::path& file : library_files(s.nvinfer_path.parent_path(), stem, major)) {
        candidates.push_back(file.string());
    }
    candidates.push_back("lib" + std::string{stem} + ".so." + std::to_string(major));
    for (const std::string& candidate : candidates) {
        std::string reason;
        if (void* handle = open_library(candidate, reason)) {
            path = candidate;
            error.clear();
            return handle;
        }
        // The first reason tells most: it speaks of the file beside libnvinfer.
        if (error.empty()) {
            error = reason;
        }
    }
    return nullptr;
}

void open_plugins(State& s) {
    if (s.plugin == nullptr) {
        s.plugin_error.clear();
        s.plugin = open_companion(s, "nvinfer_plugin", s.plugin_path, s.plugin_error);
        if (s.plugin == nullptr) {
            return;
        }
        s.entry.init_plugins = symbol<decltype(s.entry.init_plugins)>(s.plugin, "initLibNvInferPlugins");
        s.plugin_path = file_of(reinterpret_cast<void*>(s.entry.init_plugins), s.plugin_path);
    }
#ifdef TRTW_WITH_TENSORRT
    if (!s.plugins_registered && s.entry.init_plugins != nullptr) {
        s.plugins_registered = s.entry.init_plugins(&logger(), "");
        if (!s.plugins_registered) {
            s.plugin_error = "initLibNvInferPlugins failed";
        }
    }
#endif
}

void open_parser(State& s) {
    s.parser_error.clear();
    s.parser = open_companion(s, "nvonnxparser", s.parser_path, s.parser_error);
    if (s.parser == nullptr) {
        return;
    }
    s.entry.create_parser = symbol<decltype(s.entry.create_parser)>(s.parser, "createNvOnnxParser_INTERNAL");
    s.entry.create_parser_refitter =
        symbol<decltype(s.entry.create_parser_refitter)>(s.parser, "createNvOnnxParserRefitter_INTERNAL");
    s.parser_path = file_of(reinterpret_cast<void*>(s.entry.create_parser), s.parser_path);
}

LibraryStatus describe(const State& s) {
    LibraryStatus status;
    status.available = s.nvinfer != nullptr;
    status.version = s.version != 0 ? version_text(s.version) : "";
    status.headers = header_version != 0 ? version_text(header_version) : "";
    status.libnvinfer = s.nvinfer_path;
    status.parser = s.parser != nullptr ? s.parser_path : fs::path{};
    status.plugin = s.plugin != nullptr ? s.plugin_path : fs::path{};
    if (!s.parser_error.empty()) {
        status.notes.push_back("no ONNX parser: " + s.parser_error);
    }
    if (!s.plugin_error.empty()) {
        status.notes.push_back("no plugin library: " + s.plugin_error);
    }
    if (header_version != 0 && s.version != 0 && header_version != s.version) {
        status.notes.push_back("built with the headers of " + status.headers + ", running " + status.version);
    }
    return status;
}

void check_same_folder(const State& s, const fs::path& folder) {
    std::error_code ignored;
    const fs::path asked = fs::weakly_canonical(folder, ignored);
    const fs::path wanted_file = [&] {
        const auto files = library_files(asked, "nvinfer", major_of(s.version));
        return files.empty() ? fs::path{} : fs::canonical(files.front(), ignored);
    }();
    if (wanted_file != s.nvinfer_path) {
        throw UsageProblem("TensorRT is already loaded from another folder, and a process can load only one. "
                           "Start a new process to use " +
                           folder.string() + ". Loaded: " + s.nvinfer_path.string());
    }
}

} // namespace

std::string version_text(std::int32_t number) {
    const std::int32_t factor = number >= 100000 ? 10000 : 1000;
    std::ostringstream text;
    text << number / factor << '.' << number % factor / 100 << '.' << number % 100;
    return text.str();
}

bool is_at_least(std::int32_t version, int major, int minor) noexcept {
    const std::int32_t factor = version >= 100000 ? 100 : 10;
    return version / 100 >= major * factor + minor;
}

bool can_use(std::int32_t headers, std::int32_t library) noexcept {
    return major_of(headers) == major_of(library) && is_at_least(library, 8, 6);
}

std::int32_t library_version() noexcept {
    return state().version;
}

std::vector<fs::path> library_files(const fs::path& folder, std::string_view stem, int major) {
    const std::string base = "lib" + std::string{stem} + ".so";
    const std::string soname = base + "." + std::to_string(major);
    std::error_code error;
    if (fs::exists(folder / soname, error)) {
        return {folder / soname};
    }
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
        if (entry.path().filename().string().starts_with(soname + ".")) {
            found.push_back(entry.path());
        }
    }
    std::sort(found.begin(), found.end(), std::greater<>{});
    return found;
}

std::vector<std::string> search_order(const fs::path& explicit_folder, const fs::path& tensorrt_home,
                                      const std::vector<int>& majors) {
    std::vector<std::string> order;
    const auto add_folder = [&](const fs::path& folder) {
        for (const int major : majors) {
            for (const fs::path& file : library_files(folder, "nvinfer", major)) {
                order.push_back(file.string());
            }
        }
    };
    if (!explicit_folder.empty()) {
        add_folder(fs::absolute(explicit_folder));
        return order;
    }
    if (!tensorrt_home.empty()) {
        add_folder(fs::absolute(tensorrt_home) / "lib");
    }
    for (const int major : majors) {
        order.push_back("libnvinfer.so." + std::to_string(major));
    }
    return order;
}

std::vector<std::string> mapped_files(std::istream& maps, std::string_view prefix) {
    std::set<std::string> found;
    for (std::string line; std::getline(maps, line);) {
        const auto slash = line.find('/');
        if (slash == std::string::npos) {
            continue;
        }
        const std::string path = line.substr(slash);
        if (fs::path{path}.filename().string().starts_with(prefix)) {
            found.insert(path);
        }
    }
    return {found.begin(), found.end()};
}

std::vector<std::string> mapped_tensorrt() {
    std::ifstream maps{"/proc/self/maps"};
    return mapped_files(maps, "libnvinfer.so");
}

LibraryStatus load_library(const fs::path& folder, bool plugins) {
    State& s = state();
    const std::scoped_lock lock{s.mutex};
    if (s.nvinfer == nullptr) {
        open_nvinfer(s, folder);
    } else if (!folder.empty()) {
        check_same_folder(s, folder);
    }
    if (plugins) {
        open_plugins(s);
    }
    if (s.parser == nullptr) {
        open_parser(s);
    }
    return describe(s);
}

LibraryStatus library_status(const fs::path& folder) noexcept {
    LibraryStatus status;
    try {
        status = load_library(folder, false);
    } catch (const std::exception& problem) {
        const std::scoped_lock lock{state().mutex};
        status = describe(state());
        status.available = false;
        status.error = problem.what();
    }
    return status;
}

const EntryPoints& entry_points() {
    State& s = state();
    {
        const std::scoped_lock lock{s.mutex};
        if (s.nvinfer != nullptr) {
            return s.entry;
        }
    }
    load_library();
    return s.entry;
}

} // namespace trtw
