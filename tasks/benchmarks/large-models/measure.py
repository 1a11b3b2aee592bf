"""Processor seconds and peak memory of commands on a large model of random weights, in turn in several trees.

`python tasks/benchmarks/large-models/measure.py 62 FOLDER python/src OTHER/python/src` prints a JSON line a series. The
first number is how many products of 4 MB the model has; from 480 on its weights are beside it. onnxslim is measured
too, if it is on the path.
"""

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROUNDS, WIDTH, MOST_INSIDE = 2, 1024, 480
COMMANDS = {
    "inspect": [],
    "sanitize-onnx": ["-o", "sanitised.onnx"],
    "quantize --to fp16": ["-o", "fp16.onnx"],
    "--version": None,
    "--help": None,
}


def write(path: Path, layers: int) -> None:
    """Write MatMul, Add and Relu so many times over."""
    generator, nodes, weights = np.random.default_rng(0), [], []
    for place in range(layers):
        for name, shape in ((f"w{place}", (WIDTH, WIDTH)), (f"b{place}", (WIDTH,))):
            weights.append(numpy_helper.from_array(generator.standard_normal(shape, np.float32) / 32, name))
        read = f"r{place - 1}" if place else "x"
        nodes += [
            helper.make_node("MatMul", [read, f"w{place}"], [f"m{place}"]),
            helper.make_node("Add", [f"m{place}", f"b{place}"], [f"a{place}"]),
            helper.make_node("Relu", [f"a{place}"], [f"r{place}"]),
        ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", WIDTH]) for name in ("x", nodes[-1].output[0])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, save_as_external_data=layers >= MOST_INSIDE, location=f"{path.name}.data")


def measured(words: list[str], folder: Path, tree: str) -> tuple[float, float]:
    """Return processor seconds and peak memory in MB of a process."""
    kept = folder / "cache"
    shutil.rmtree(kept, ignore_errors=True)  # what a first call makes is part of it
    more = {"PYTHONPATH": tree, "XDG_CACHE_HOME": str(kept), "TRTW_TMP": str(folder / "tmp")}
    process = subprocess.Popen(words, cwd=folder, env={**os.environ, **more}, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, words
    return round(used.ru_utime + used.ru_stime, 3), round(used.ru_maxrss * 1024 / 1e6)


def main(layers: int, folder: Path, trees: list[str]) -> None:
    """Measure everything in turn, and print a line a series."""
    folder.mkdir(parents=True, exist_ok=True)
    # a process starts with the peak of the one that starts it
    writer = multiprocessing.get_context("spawn").Process(target=write, args=(folder / "model.onnx", layers))
    writer.start()
    writer.join()
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in range(ROUNDS):
        for tree in trees:
            for name, rest in COMMANDS.items():
                own = name.split() if rest is None else [name.split()[0], "model.onnx", *name.split()[1:], *rest]
                call = [sys.executable, "-m", "trt_workbench", *own]
                found.setdefault((tree, name), []).append(measured(call, folder, str(Path(tree).resolve())))
        if slim := shutil.which("onnxslim"):
            call = [slim, "model.onnx", "slim.onnx"]
            found.setdefault(("onnxslim", "onnxslim"), []).append(measured(call, folder, ""))
    for (tree, name), series in found.items():
        seconds, peaks = zip(*series, strict=True)
        more = {} if name.startswith("--") else {"peak_mb": peaks}
        print(json.dumps({"tree": tree, "what": name, "cpu_s": seconds, **more}))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]).resolve(), sys.argv[3:])
