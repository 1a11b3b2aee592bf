// DLPack's exchange by functions of C, which a type offers as `__dlpack_c_exchange_api__` from DLPack 1.3 on: a
// description of an array without a call of Python.
#pragma once

#include <dlpack/dlpack.h>

namespace trtw::bindings {

struct DlpackExchangeHeader {
    DLPackVersion version;
    DlpackExchangeHeader* previous;
};

struct DlpackExchange {
    DlpackExchangeHeader header;
    void* allocate;
    void* owner_of_object;
    void* object_of_owner;
    /// Describes an array for as long as it lives and stays as it is. 0, or an error of Python is set. May be null.
    int (*view_of_object)(void* object, DLTensor* view);
    /// The stream that the library's work goes to. 0, or an error of Python is set.
    int (*current_stream)(DLDeviceType type, std::int32_t device, void** stream);
};

constexpr const char* exchange_capsule = "dlpack_exchange_api";

} // namespace trtw::bindings
