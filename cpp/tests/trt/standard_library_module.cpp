// A module with the core's check, linked in several ways (see CMakeLists.txt).
#include "trt/entry_points.hpp"
#include "trtw/error.hpp"
#include "trtw/library.hpp"

#include <string>

extern "C" __attribute__((visibility("default"))) const char* trtw_refusal() {
    static std::string text;
    try {
        static_cast<void>(trtw::load_library("/nowhere"));
    } catch (const trtw::ComponentMissing& problem) {
        text = problem.what();
    }
    return text.find("libstdc++") != std::string::npos ? text.c_str() : "";
}
