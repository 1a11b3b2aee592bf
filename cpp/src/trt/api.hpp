// Typed constructors of TensorRT's root objects, through the entry points that library.hpp opened.
#pragma once

#include <NvInfer.h>
#include <NvOnnxParser.h>

#include <memory>

namespace trtw {

/// Throws DeviceFailure, with TensorRT's own error lines, where the GPU or its driver cannot be used.
std::unique_ptr<nvinfer1::IBuilder> create_builder();
std::shared_ptr<nvinfer1::IRuntime> create_runtime();
std::unique_ptr<nvinfer1::IRefitter> create_refitter(nvinfer1::ICudaEngine& engine);

/// A context without scratch memory; null where TensorRT makes none.
std::unique_ptr<nvinfer1::IExecutionContext> create_context(nvinfer1::ICudaEngine& engine);

/// Throws ComponentMissing where libnvonnxparser is absent.
std::unique_ptr<nvonnxparser::IParser> create_parser(nvinfer1::INetworkDefinition& network);

} // namespace trtw
