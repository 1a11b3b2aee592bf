#include "build/tactic_libraries.hpp"

#include <algorithm>
#include <array>
#include <dlfcn.h>
#include <initializer_list>
#include <vector>

namespace fs = std::filesystem;

namespace trtw {

namespace {

struct Library {
    std::string_view source;
    std::vector<std::string> names; ///< TensorRT 8.6 exists for CUDA 12 and for CUDA 11
    const char* symbol;             ///< asked for by TensorRT, and absent from stand-ins
};

const std::array<Library, 3>& libraries() {
    static const std::array<Library, 3> known{{
        {"cublas", {"libcublas.so.12", "libcublas.so.11"}, "cublasGetProperty"},
        {"cublas_lt", {"libcublasLt.so.12", "libcublasLt.so.11"}, "cublasLtGetProperty"},
        {"cudnn", {"libcudnn.so.8"}, "cudnnGetVersion"},
    }};
    return known;
}

// What stands in the way of one file; empty where it opens and has the symbol. A good handle is never closed.
std::string problem_of(const std::string& file, const char* symbol) {
    void* handle = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) {
        const char* reason = dlerror();
        return reason != nullptr ? reason : file + " cannot be opened";
    }
    if (dlsym(handle, symbol) == nullptr) {
        dlclose(handle);
        return file + " has no " + symbol + ", so it is not the complete library";
    }
    return {};
}

} // namespace

std::string tactic_library_problem(std::string_view source, const fs::path& folder) {
    const auto& known = libraries();
    const auto library =
        std::find_if(known.begin(), known.end(), [source](const Library& entry) { return entry.source == source; });
    if (library == known.end()) {
        return {};
    }
    std::string first;
    for (const std::string& name : library->names) {
        std::error_code ignored;
        // By bare name first: that is the one that TensorRT will get.
        std::string problem = problem_of(name, library->symbol);
        if (!problem.empty() && !folder.empty() && fs::exists(folder / name, ignored)) {
            problem = problem_of((folder / name).string(), library->symbol);
        }
        if (problem.empty()) {
            return {};
        }
        if (first.empty()) {
            first = problem;
        }
    }
    return first;
}

} // namespace trtw
