"""Stand-ins for what ONNX Runtime's GPU providers link, so that the real providers load and parse where no GPU is."""

import os
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

_SOURCE = Path(__file__).with_name("libraries.cc")
# Libraries of NVIDIA, by the names that a provider links, and functions of those that give theirs no version.
_LIBRARY = r"lib(?:cu|nv)[\w.-]+"
_FUNCTION = r"(?:create|get|init)\w*(?:Infer|Plugin|NvOnnx)\w*|cu[A-Z]\w*|nvml\w*"
_MAKES = re.compile("Create|Malloc|HostAlloc")


def make_stand_ins(folder: Path, providers: Iterable[Path]) -> Path:
    """Make one library that has every function of NVIDIA's that `providers` import, copied to each name of theirs.

    A function does nothing and succeeds; one that makes something hands out zeroed memory. Those that must say more are
    in libraries.cc: two cards of compute capability 12.0, and a TensorRT whose parser takes no node.

    Args:
        folder: a new one; to be in LD_LIBRARY_PATH before a process starts.
        providers: shared objects of wheels.

    Returns:
        The library. In LD_PRELOAD it lets ONNX Runtime see the folder STAND_IN_SYS instead of /sys.
    """
    folder.mkdir()
    names: set[str] = set()
    functions: defaultdict[str, set[str]] = defaultdict(set)  # by version
    for provider in providers:
        names.update(re.findall(rf"NEEDED.*\[({_LIBRARY})\]", _output(_tool("readelf"), "-d", provider)))
        for name, version in re.findall(
            r" [Uw] (\w+)(?:@+(\S+))?\n", _output(_tool("nm"), "-D", "--undefined-only", provider)
        ):
            if re.fullmatch(_LIBRARY, version) or (not version and re.fullmatch(_FUNCTION, name)):
                functions[version].add(name)
    source = _SOURCE.read_text()
    written = set(re.findall(r"(?m)^\w[\w* ]*?\b(\w+)\(", source))
    lines = [source, 'extern "C" {']
    for name in sorted(set().union(*functions.values()) - written):
        body = (
            "*made = calloc(1, size < 1ul << 34 ? size + 4096 : 4096); return 0;"
            if _MAKES.search(name)
            else "return 0;"
        )
        lines.append(f"int {name}(void** made, size_t size) {{ {body} }}")
    (folder / "all.cc").write_text("\n".join([*lines, "}", ""]))
    (folder / "versions").write_text(
        "".join(f"{version} {{ {'; '.join(sorted(found))}; }};\n" for version, found in functions.items() if version)
    )
    library = folder / "stand_ins.so"
    eleven = any(name.endswith("nvinfer.so.11") for name in names)
    words = [
        os.environ.get("CXX", "g++"),
        "-w",
        "-shared",
        "-fPIC",
        f"-DTENSORRT={110100 if eleven else 101601}",
        f"-Wl,--version-script={folder / 'versions'}",
        "-o",
        library,
    ]
    subprocess.run([*words, folder / "all.cc", "-ldl"], check=True)
    for name in names:
        shutil.copy(library, folder / name)  # a link would be mapped under the library's own name
    return library


def _tool(name: str) -> str:
    return os.environ.get(name.upper(), name)  # conda's compilers have names of their own


def _output(*words: str | Path) -> str:
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
