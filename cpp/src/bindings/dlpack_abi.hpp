// The structures of DLPack's stable C interface, version 0 (github.com/dmlc/dlpack, include/dlpack/dlpack.h).
#pragma once

#include <cstdint>

namespace trtw::bindings::dlpack {

constexpr std::int32_t device_cuda = 2;
constexpr std::int32_t device_cuda_managed = 13;

enum TypeCode : std::uint8_t {
    code_int = 0,
    code_uint = 1,
    code_float = 2,
    code_bfloat = 4,
    code_bool = 6,
    code_float8_e4m3fn = 10
};

struct Device {
    std::int32_t type;
    std::int32_t id;
};

struct DataType {
    std::uint8_t code;
    std::uint8_t bits;
    std::uint16_t lanes;
};

struct Tensor {
    void* data;
    Device device;
    std::int32_t ndim;
    DataType dtype;
    std::int64_t* shape;
    std::int64_t* strides; ///< in elements; null for row-major
    std::uint64_t byte_offset;
};

struct ManagedTensor {
    Tensor tensor;
    void* owner;
    void (*deleter)(ManagedTensor* self);
};

constexpr const char* capsule_name = "dltensor";
constexpr const char* used_capsule_name = "used_dltensor";

} // namespace trtw::bindings::dlpack
