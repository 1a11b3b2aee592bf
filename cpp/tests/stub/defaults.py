"""Write a C++ header of classes that implement TensorRT's interfaces, of which the stub overrides what the core calls.

A method that returns nothing does nothing; any other ends the process and says its name.

    python defaults.py INCLUDE OUTPUT    INCLUDE holds NvInfer.h and NvOnnxParser.h
"""

import re
import sys
from pathlib import Path

# By header: its namespace, and the interfaces that the stub implements. Those of NvInferImpl.h are what TensorRT's
# public classes call.
INTERFACES = {
    "NvInferImpl.h": (
        "nvinfer1::apiv",
        "VRuntime VCudaEngine VExecutionContext VBuilder VBuilderConfig VNetworkDefinition VTensor "
        "VOptimizationProfile VTimingCache VHostMemory VRefitter VSerializationConfig VEngineInspector",
    ),
    "NvOnnxParser.h": ("nvonnxparser", "IParser IParserError IParserRefitter"),
}


def default_class(text: str, name: str) -> str:
    """Return the class Default<name>; nothing where this version of TensorRT has no such interface."""
    found = re.search(rf"^class {name}\b[^;{{]*\{{(.*?)^\}};", text, re.MULTILINE | re.DOTALL)
    if found is None:
        return ""
    methods = []
    for declaration in re.findall(r"\bvirtual\s+([^;]*?)\s*=\s*0\s*;", found[1]):
        declared = " ".join(declaration.split())
        method = re.search(r"(\w+)\s*\(", declared)[1]
        body = "" if declared.startswith("void ") else f'stub::unexpected("{name}::{method}");'
        methods.append(f"    {declared} override {{ {body} }}")
    return "\n".join([f"class Default{name} : public {name} {{", "public:", *methods, "};", ""])


def main() -> None:
    """Write the header."""
    include, output = map(Path, sys.argv[1:])
    parts = ["#pragma once", "#pragma GCC system_header", "#include <NvInfer.h>", "#include <NvOnnxParser.h>", ""]
    parts += ["namespace stub { [[noreturn]] void unexpected(char const* method); }", ""]
    for header, (namespace, names) in INTERFACES.items():
        text = re.sub(r"//[^\n]*|/\*.*?\*/", "", (include / header).read_text(encoding="utf-8"), flags=re.DOTALL)
        parts += [f"namespace {namespace} {{", *(default_class(text, name) for name in names.split()), "}", ""]
    output.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
