"""Run the tests of this folder over stand-ins: `python -m tests.stand_ins -k trt`; arguments are pytest's.

The loader reads its variables once, when a process starts, so pytest is started with them. Where TRTW_TRT_PLUGIN names
the TensorRT plug-in that `build-ort` made, that is the only provider, in a plain onnxruntime.
"""

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tests.stand_ins.libraries import make_stand_ins

PROVIDERS = {"onnxruntime": "capi/libonnxruntime_providers_[ct]*.so", "onnxruntime_ep_nv_tensorrt_rtx": "libonnx*.so"}
# A card as the kernel lists it: a display controller of NVIDIA's.
CARD = {"class": "0x030000", "vendor": "0x10de", "device": "0x2b85"}


def providers() -> list[Path]:
    """Return the shared objects of the installed providers, at least one of each package."""
    if plugin := os.environ.get("TRTW_TRT_PLUGIN"):
        return [Path(plugin).resolve()]
    found: list[Path] = []
    for package, pattern in PROVIDERS.items():
        spec = find_spec(package)
        files = sorted(Path(spec.origin).parent.glob(pattern)) if spec and spec.origin else []
        if not files:
            sys.exit(f"{package} has no {pattern}; run this by the task test-providers")
        found += files
    return found


with tempfile.TemporaryDirectory(prefix="trtw-stand-ins-") as temporary:
    folder = Path(temporary)
    library = make_stand_ins(folder / "lib", providers())
    for bus in ("01", "02"):
        card = folder / f"sys/bus/pci/devices/0000:{bus}:00.0"
        card.mkdir(parents=True)
        for name, text in CARD.items():
            (card / name).write_text(text + "\n")
    variables = {"LD_LIBRARY_PATH": str(folder / "lib"), "LD_PRELOAD": str(library), "STAND_IN_SYS": temporary}
    tests = Path(__file__).with_name(f"test_{'plugin' if 'TRTW_TRT_PLUGIN' in os.environ else 'provider_options'}.py")
    words = [sys.executable, "-m", "pytest", "-n", "0", str(tests), *sys.argv[1:]]
    sys.exit(subprocess.run(words, env=os.environ | variables, check=False).returncode)
