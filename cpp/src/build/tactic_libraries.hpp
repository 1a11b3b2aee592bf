// Libraries that tactic sources of TensorRT 8 open at run time: cuBLAS, cuBLASLt and cuDNN.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace trtw {

/// Why the library of a tactic source ("cublas", "cublas_lt", "cudnn") cannot be used; empty where it can, and for
/// sources that need none. TensorRT opens these libraries by bare name, so one that lies in `folder` alone, beside
/// libnvinfer, is opened here and stays open. A library without the entry points that TensorRT needs (a stand-in that
/// only satisfies the linker) counts as unusable.
std::string tactic_library_problem(std::string_view source, const std::filesystem::path& folder);

} // namespace trtw
