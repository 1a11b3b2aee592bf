// The files of the stub, and what it says.
#include "stub.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <type_traits>

namespace stub {

[[noreturn]] void unexpected(const char* method) {
    std::fprintf(stderr, "the stub of TensorRT has no %s\n", method);
    std::abort();
}

bool refuse(const std::string& reason) {
    logger->log(ILogger::Severity::kERROR, reason.c_str());
    return false;
}

Dims dims_of(std::int64_t elements) {
    Dims dims{};
    dims.nbDims = 1;
    dims.d[0] = static_cast<std::remove_reference_t<decltype(dims.d[0])>>(elements);
    return dims;
}

constexpr const char* plan_mark = "stub plan " TRTW_TRT_VERSION_TEXT;

std::string to_text(const Content& content) {
    std::ostringstream text;
    text << plan_mark << '\n'
         << content.name << ' ' << content.elements << ' ' << content.weight << ' ' << content.refittable << '\n';
    for (const Profile& profile : content.profiles) {
        for (const auto& [name, range] : profile) {
            text << name << ' ' << range[0] << ' ' << range[1] << ' ' << range[2] << ' ';
        }
        text << '\n';
    }
    return text.str();
}

std::optional<Content> read_plan(const std::string& plan) {
    std::istringstream text{plan};
    std::string line;
    std::getline(text, line);
    if (line != plan_mark) {
        refuse(line.starts_with("stub plan") ? "Version tag does not match" : "magicTag == kPLAN_MAGIC failed");
        return std::nullopt;
    }
    Content content;
    std::getline(text, line);
    std::istringstream{line} >> content.name >> content.elements >> content.weight >> content.refittable;
    while (std::getline(text, line)) {
        std::istringstream words{line};
        Profile profile;
        Range range;
        for (std::string name; words >> name >> range[0] >> range[1] >> range[2];) {
            profile[name] = range;
        }
        content.profiles.push_back(profile);
    }
    return content;
}

std::optional<Content> read_model(const char* path) {
    std::ifstream file{path};
    Content content;
    file >> content.name >> content.elements;
    if (float weight = 0; file >> weight) {
        content.weight = weight;
    }
    return content.model().tensors.empty() ? std::nullopt : std::optional{content};
}

IPluginRegistry& no_registry() {
    static std::aligned_storage_t<64> storage;
    return reinterpret_cast<IPluginRegistry&>(storage);
}

} // namespace stub
