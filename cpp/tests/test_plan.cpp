#include "trtw/engine/plan.hpp"

#include <doctest/doctest.h>

#include <string>

using trtw::engine::explain_refusal;

namespace {

constexpr auto kLibrary = "TensorRT 8.6.0 (/opt/libnvinfer.so.8)";

bool explained(const std::string& log, const std::string& words) {
    const std::string text = explain_refusal(log, kLibrary);
    // whatever the cause: what is loaded, and what TensorRT itself says
    CHECK(text.find(kLibrary) != std::string::npos);
    CHECK(text.ends_with(log));
    return text.find(words) != std::string::npos;
}

} // namespace

TEST_CASE("a plan that TensorRT refuses for its version is told so") {
    constexpr auto words = "built by another version of TensorRT";
    CHECK(
        explained("6: The engine plan file is not compatible with this version of TensorRT, expecting library version "
                  "8.6.0 got 8.5.3, please rebuild.",
                  words));
    CHECK(
        explained("1: Serialization (Serialization assertion stdVersionRead == serializationVersion failed.Version tag "
                  "does not match. Note: Current Version: 239, Serialized Engine Version: 213)",
                  words));
    CHECK_FALSE(explained(
        "1: Serialization (Serialization assertion plan->header.magicTag == rt::kPLAN_MAGIC_TAG failed.)", words));
}

TEST_CASE("a plan that TensorRT refuses for another cause is told that one") {
    CHECK(explained(
        "6: The engine plan file is generated on an incompatible device, expecting compute 9.0 got compute 8.6",
        "built for another GPU"));
    CHECK(explained("1: getPluginCreator could not find plugin: Custom version: 1", "plugin that is not loaded"));
    CHECK(explained("1: Serialization (Serialization assertion plan->header.size == blobSize failed.)", "cut short"));
    CHECK(explained("", "no engine at all"));
}
