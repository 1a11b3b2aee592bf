#include "trt/types.hpp"

#include "trt/joined.hpp"
#include "trt/version.hpp"
#include "trtw/error.hpp"

#include <array>
#include <limits>

namespace trtw {

namespace {

using nvinfer1::DataType;

struct TypeEntry {
    DataType type;
    std::string_view name;
    std::string_view alias; ///< as trtexec and TensorRT's documents say it
    std::size_t bits;
    int major = 0; ///< the version that brought it
    int minor = 0;
};

constexpr auto type_entries = std::to_array<TypeEntry>({
    {DataType::kFLOAT, "float32", "fp32", 32},
    {DataType::kHALF, "float16", "fp16", 16},
    {DataType::kINT8, "int8", "int8", 8},
    {DataType::kINT32, "int32", "int32", 32},
    {DataType::kBOOL, "bool", "bool", 8},
    {DataType::kUINT8, "uint8", "uint8", 8},
    {DataType::kFP8, "fp8", "float8_e4m3fn", 8},
#if TRTW_TRT_AT_LEAST(10, 0)
    {DataType::kBF16, "bfloat16", "bf16", 16},
    {DataType::kINT64, "int64", "int64", 64},
    {DataType::kINT4, "int4", "int4", 4},
#endif
#if TRTW_IN_HEADERS(TRTW_TRT_HAS_FP4)
    {DataType::kFP4, "fp4", "float4_e2m1", 4, TRTW_TRT_HAS_FP4},
#endif
#if TRTW_IN_HEADERS(TRTW_TRT_HAS_E8M0)
    {DataType::kE8M0, "e8m0", "float8_e8m0fnu", 8, TRTW_TRT_HAS_E8M0},
#endif
});

const TypeEntry* find(DataType type) noexcept {
    for (const TypeEntry& entry : type_entries) {
        if (entry.type == type) {
            return &entry;
        }
    }
    return nullptr;
}

} // namespace

std::string_view dtype_name(DataType type) noexcept {
    const TypeEntry* entry = find(type);
    return entry != nullptr ? entry->name : std::string_view{"unknown"};
}

DataType parse_dtype(std::string_view name) {
    for (const TypeEntry& entry : type_entries) {
        if ((entry.name == name || entry.alias == name) && has(entry.major, entry.minor)) {
            return entry.type;
        }
    }
    throw UsageProblem("Data type '" + std::string{name} + "' is not one of " + version_in_words() + ": " +
                       joined(dtype_names()) + ".");
}

std::vector<std::string> dtype_names() {
    std::vector<std::string> names;
    for (const TypeEntry& entry : type_entries) {
        if (has(entry.major, entry.minor)) {
            names.emplace_back(entry.name);
        }
    }
    return names;
}

std::size_t dtype_bits(DataType type) noexcept {
    const TypeEntry* entry = find(type);
    return entry != nullptr ? entry->bits : 0;
}

std::vector<std::int64_t> to_vector(const nvinfer1::Dims& dims) {
    // A negative count marks invalid dimensions.
    const int count = dims.nbDims > 0 ? dims.nbDims : 0;
    return {dims.d, dims.d + count};
}

nvinfer1::Dims to_dims(std::span<const std::int64_t> values, std::string_view tensor) {
    using Value = std::remove_cvref_t<decltype(nvinfer1::Dims::d[0])>;
    nvinfer1::Dims dims{};
    if (values.size() > static_cast<std::size_t>(nvinfer1::Dims::MAX_DIMS)) {
        throw UsageProblem("A shape of " + std::to_string(values.size()) +
                           " dimensions is more than TensorRT's limit of 8: tensor '" + std::string{tensor} + "'.");
    }
    dims.nbDims = static_cast<std::int32_t>(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i] > static_cast<std::int64_t>(std::numeric_limits<Value>::max()) ||
            values[i] < static_cast<std::int64_t>(std::numeric_limits<Value>::min())) {
            throw UsageProblem("Dimension " + std::to_string(values[i]) + " is out of range for " + version_in_words() +
                               ": tensor '" + std::string{tensor} + "'.");
        }
        dims.d[i] = static_cast<Value>(values[i]);
    }
    return dims;
}

} // namespace trtw
