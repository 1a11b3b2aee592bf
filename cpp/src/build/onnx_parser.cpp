#include "build/onnx_parser.hpp"

#include "build/network.hpp"
#include "build/onnx_nodes.hpp"
#include "trt/api.hpp"
#include "trt/joined.hpp"
#include "trt/logger.hpp"
#include "trt/version.hpp"
#include "trtw/error.hpp"

#include <array>
#include <filesystem>
#include <string_view>

namespace trtw {

namespace {

constexpr auto code_names = std::to_array<std::string_view>(
    {"success", "internal_error", "out_of_memory", "model_deserialize_failed", "invalid_value", "invalid_graph",
     "invalid_node", "unsupported_graph", "unsupported_node", "unsupported_node_attribute", "unsupported_node_input",
     "unsupported_node_datatype", "unsupported_node_dynamic", "unsupported_node_shape", "refit_failed"});

std::string code_name(nvonnxparser::ErrorCode code) {
    const auto index = static_cast<std::size_t>(code);
    return index < code_names.size() ? std::string{code_names[index]} : "error " + std::to_string(index);
}

std::string text_of(const char* text) {
    return text != nullptr ? text : "";
}

ParserProblem describe(const nvonnxparser::IParserError& error, const std::string& model_path) {
    ParserProblem problem{code_name(error.code()), text_of(error.desc()), error.node(), {}, {}};
#if TRTW_TRT_PARSER_NODE_NAMES
    problem.node_name = text_of(error.nodeName());
    problem.op_type = text_of(error.nodeOperator());
#endif
    if (problem.node >= 0 && (problem.node_name.empty() || problem.op_type.empty())) {
        if (const auto node = onnx_node(model_path, static_cast<std::size_t>(problem.node))) {
            problem.node_name = node->name.empty() ? "output " + node->first_output : node->name;
            problem.op_type = node->domain.empty() ? node->op_type : node->domain + "::" + node->op_type;
        }
    }
    return problem;
}

} // namespace

std::string to_text(const ParserProblem& problem) {
    std::string text = problem.code;
    if (problem.node >= 0) {
        text += " at node " + std::to_string(problem.node);
        if (!problem.node_name.empty()) {
            text += " '" + problem.node_name + "'";
        }
        if (!problem.op_type.empty()) {
            text += " (" + problem.op_type + ")";
        }
    }
    return problem.description.empty() ? text : text + ": " + problem.description;
}

template <class Parser>
std::vector<ParserProblem> parser_problems(const Parser& parser, const std::string& model_path) {
    std::vector<ParserProblem> problems;
    for (int i = 0; i < parser.getNbErrors(); ++i) {
        if (const auto* error = parser.getError(i)) {
            problems.push_back(describe(*error, model_path));
        }
    }
    return problems;
}

template std::vector<ParserProblem> parser_problems(const nvonnxparser::IParser&, const std::string&);
#if TRTW_TRT_PARSER_REFITTER
template std::vector<ParserProblem> parser_problems(const nvonnxparser::IParserRefitter&, const std::string&);
#endif

void throw_parser_problems(const std::vector<ParserProblem>& problems, const std::string& log,
                           const std::string& model_path) {
    std::string text = joined(problems, "; ", to_text);
    if (text.empty()) {
        text = log.empty() ? "no reason given" : log;
    }
    throw UsageProblem(version_in_words() + " cannot parse the model: " + text + ". Model: " + model_path);
}

void check_model_file(const std::string& model_path) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(model_path, error)) {
        throw UsageProblem("No such model file: " + model_path);
    }
}

std::unique_ptr<nvonnxparser::IParser> parse_onnx(nvinfer1::INetworkDefinition& network, const std::string& model_path,
                                                  std::optional<bool> native_instance_norm) {
    check_model_file(model_path);
    auto parser = create_parser(network);
    if (native_instance_norm && *native_instance_norm) {
        parser->setFlag(nvonnxparser::OnnxParserFlag::kNATIVE_INSTANCENORM);
    } else if (native_instance_norm) {
        parser->clearFlag(nvonnxparser::OnnxParserFlag::kNATIVE_INSTANCENORM);
    }
    const LogCapture capture{logger().buffer()};
    const bool parsed =
        parser->parseFromFile(model_path.c_str(), static_cast<int>(nvinfer1::ILogger::Severity::kWARNING));
    const auto problems = parser_problems(*parser, model_path);
    if (!parsed || !problems.empty()) {
        throw_parser_problems(problems, capture.errors(), model_path);
    }
    if (network.getNbOutputs() == 0) {
        throw UsageProblem("The model has no outputs: " + model_path);
    }
    return parser;
}

std::vector<std::string> unsupported_operators(const std::vector<std::string>& op_types) {
    const auto builder = create_builder();
    const auto network = create_network(*builder, false);
    const auto parser = create_parser(*network);
    std::vector<std::string> missing;
    for (const std::string& op_type : op_types) {
        if (!parser->supportsOperator(op_type.c_str())) {
            missing.push_back(op_type);
        }
    }
    return missing;
}

} // namespace trtw
