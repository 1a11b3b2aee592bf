// Names and sizes of TensorRT's data types, and conversions of its dimensions.
#pragma once

#include <NvInferRuntime.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trtw {

/// numpy's name where it has the type ("float32", "int64", "bool"), else the usual one ("bfloat16", "fp8").
std::string_view dtype_name(nvinfer1::DataType type) noexcept;

/// The type of a name; throws UsageProblem where it is unknown or where this TensorRT version lacks it.
nvinfer1::DataType parse_dtype(std::string_view name);

/// The names that this TensorRT version has.
std::vector<std::string> dtype_names();

/// Bits of one element (int4 and fp4 take less than a byte).
std::size_t dtype_bits(nvinfer1::DataType type) noexcept;

/// -1 stands for a dimension that is known at run time only.
std::vector<std::int64_t> to_vector(const nvinfer1::Dims& dims);

/// Throws UsageProblem, naming the tensor, for more than eight dimensions or a value that TensorRT's type cannot hold.
nvinfer1::Dims to_dims(std::span<const std::int64_t> values, std::string_view tensor);

} // namespace trtw
