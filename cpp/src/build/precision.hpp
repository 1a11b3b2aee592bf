// Precision of a build: what TensorRT may, must or must not compute in.
#pragma once

#include "build/network.hpp"
#include "trtw/build_options.hpp"

#include <NvInfer.h>

#include <string>
#include <vector>

namespace trtw {

/// The precisions beside fp32 that this TensorRT version can be asked for.
std::vector<std::string> precision_names();

/// Throws UsageProblem for precision requests that this TensorRT version cannot honour at all.
void check_precision_supported(const BuildOptions& options);

/// Throws UsageProblem where a network of these types does not fit the request: int8 without Q/DQ nodes and
/// calibration, Q/DQ nodes without their type, a type that a strongly typed network does not hold.
void check_precision_of(const NetworkTypes& types, const BuildOptions& options);

/// Sets the flags of a weakly typed build, and the precisions of the layers and the types of the tensors asked for.
/// Throws UsageProblem where a rule matches no layer or a named tensor does not exist.
void apply_precision(nvinfer1::INetworkDefinition& network, nvinfer1::IBuilderConfig& config,
                     const BuildOptions& options);

} // namespace trtw
