// ONNX file to TensorRT network, with errors that name the ONNX node.
#pragma once

#include "trt/version.hpp"

#include <NvInfer.h>
#include <NvOnnxParser.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trtw {

/// One error of TensorRT's parser.
struct ParserProblem {
    std::string code;        ///< "unsupported_node", "invalid_graph", …
    std::string description; ///< the parser's own words
    int node = -1;           ///< index in the ONNX graph; -1 where the error is not about one node
    std::string node_name;
    std::string op_type;
};

/// "unsupported_node at node 3 'conv1' (Conv): …"
std::string to_text(const ParserProblem& problem);

/// Collects the errors of a parser or of a parser refitter. Node names that TensorRT does not tell are looked up in
/// the model file.
template <class Parser>
std::vector<ParserProblem> parser_problems(const Parser& parser, const std::string& model_path);

/// Raises UsageProblem with every problem; `log` is TensorRT's own error text, told where the parser lists none.
[[noreturn]] void throw_parser_problems(const std::vector<ParserProblem>& problems, const std::string& log,
                                        const std::string& model_path);

/// Throws UsageProblem for what is no regular file: TensorRT would wait for a pipe.
void check_model_file(const std::string& model_path);

/// Parses a model from its path, so that external data resolves beside it. The parser owns weights of the network and
/// has to outlive the build.
/// Throws UsageProblem with every parser error, or where the file cannot be read.
std::unique_ptr<nvonnxparser::IParser> parse_onnx(nvinfer1::INetworkDefinition& network, const std::string& model_path,
                                                  std::optional<bool> native_instance_norm);

/// Those of the operators that the ONNX parser of the loaded TensorRT does not import. Plugins are not considered.
std::vector<std::string> unsupported_operators(const std::vector<std::string>& op_types);

extern template std::vector<ParserProblem> parser_problems(const nvonnxparser::IParser&, const std::string&);
#if TRTW_TRT_PARSER_REFITTER
extern template std::vector<ParserProblem> parser_problems(const nvonnxparser::IParserRefitter&, const std::string&);
#endif

} // namespace trtw
