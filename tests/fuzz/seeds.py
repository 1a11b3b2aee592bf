"""The files that are mutated: real ones, made by the commands themselves where a command makes them."""

import json
import os
import shutil
import sys
import wave
from multiprocessing import get_context
from pathlib import Path

import cv2
import numpy as np
import onnx
from tests.onnx_text import parse_onnx, write_detector
from tests.streaming_models import attention, contract_of, counted, counted_contract, write_contract

REPOSITORY = Path(__file__).parents[2]
DOUBLES = REPOSITORY / "tests" / "doubles"


def make_seeds(folder: Path) -> None:
    """Fill `folder` with one subfolder for each kind of input. Forks, so that commands find what is imported."""
    for name in ("models", "arrays", "calibration", "coco/images", "settings", "engine", "runs", "llm", "streaming"):
        (folder / name).mkdir(parents=True)
    _models(folder / "models")
    _arrays(folder)
    _coco(folder / "coco")
    _settings(folder / "settings")
    _llm(folder / "llm")
    attention(folder / "streaming")
    write_contract(folder / "streaming" / "contract.json", contract_of("attention"))
    audio = contract_of("attention")
    audio["chunking"] |= {"sample_rate": 16000, "frame_seconds": 3 / 16000}
    write_contract(folder / "streaming" / "audio.json", audio)
    with wave.open(str(folder / "streaming" / "sound.wav"), "wb") as sound:
        sound.setparams((1, 2, 16000, 0, "NONE", ""))
        sound.writeframes(bytes(range(256)) * 20)
    counted(folder / "streaming")
    write_contract(folder / "streaming" / "counted.json", counted_contract())
    np.save(folder / "streaming" / "features.npy", np.linspace(-1, 1, 3 * 60, dtype=np.float32).reshape(3, 60))
    _runs(folder)


def _models(folder: Path) -> None:
    constants = {
        "weight": np.eye(3, dtype=np.float32),
        "numbers": np.array([6, 8, 9], np.int32),
        "divisors": np.array([2, -1, 3], np.int32),
    }
    model = parse_onnx(
        """small (float[batch,3] x, float[batch,3] y) => (float[batch,3] total, float[batch,3] share) {
        [add] sum = Add(x, y)
        [product] product = MatMul(sum, weight)
        [whole] whole = Div(numbers, divisors)
        [cast] real = Cast <to = 1> (whole)
        [scale] total = Mul(product, real)
        [share] share = Softmax <axis = -1> (total)
        }""",
        constants,
    )
    onnx.save(model, folder / "plain.onnx")
    onnx.save(model, folder / "outside.onnx", save_as_external_data=True, location="outside.data", size_threshold=0)
    onnx.save(_with_branch_and_function(), folder / "branch.onnx")


def _with_branch_and_function() -> onnx.ModelProto:
    """A model with subgraphs, a function of its own and shape arithmetic."""
    return onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17, "own" : 1]>
        branch (float[n,4] x) => (float[m] y) <int64 first = {1}, int64[1] flat = {-1}> {
        shape = Shape(x)
        rows = Gather(shape, first)
        many = Greater(rows, first)
        chosen = If (many) <then_branch = then () => (float[] inner) { inner = Neg(x) },
                            else_branch = other () => (float[] inner) { inner = own.Twice(x) }>
        y = Reshape(chosen, flat)
        }
        <domain: "own", opset_import: ["" : 17]>
        Twice (a) => (b) { b = Add(a, a) }"""
    )


def _arrays(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("x", "y"):
        np.save(folder / "arrays" / f"{name}.npy", rng.random((2, 3), np.float32))
    np.savez_compressed(folder / "arrays" / "both.npz", x=np.ones((2, 3), np.float32), y=np.ones((2, 3), np.float32))
    np.savez(folder / "calibration" / "data.npz", x=np.ones((8, 3), np.float32), y=np.ones((8, 3), np.float32))


def _coco(folder: Path) -> None:
    """A detector whose first box is as likely as the image is bright, and images for it."""
    properties = {"family": "yolov10", "names": "['square', 'circle']", "task": "detect", "imgsz": "[32, 32]"}
    write_detector(folder / "detector.onnx", [[4, 6, 20, 18, 0, 0], [0, 0, 9, 9, 0, 1]], properties)
    document = {
        "images": [],
        "annotations": [],
        "categories": [{"id": 3, "name": "square"}, {"id": 9, "name": "circle"}],
    }
    for number, name in enumerate(("a.png", "b.jpg"), 1):
        cv2.imwrite(str(folder / "images" / name), np.full((32, 40, 3), 90 * number, np.uint8))
        document["images"].append({"id": number, "file_name": name, "width": 40, "height": 32})
        box = {"bbox": [4, 6, 16, 12], "area": 192, "iscrowd": 0, "segmentation": [[4, 6, 20, 6, 20, 18]]}
        document["annotations"].append({"id": number, "image_id": number, "category_id": 3, **box})
    (folder / "annotations.json").write_text(json.dumps(document))
    for name, code in (("clip.mp4", "mp4v"), ("clip.avi", "MJPG")):
        writer = cv2.VideoWriter(str(folder / name), cv2.VideoWriter.fourcc(*code), 10.0, (40, 32))
        for number in range(6):
            writer.write(np.full((32, 40, 3), 40 * number, np.uint8))
        writer.release()


def _settings(folder: Path) -> None:
    shutil.copy(folder.parent / "models" / "plain.onnx", folder / "m.onnx")
    (folder / "bench.yaml").write_text(
        "title: small\nseed: 3\nrepetitions: 2\nmeasure: {warmup_ms: 1, duration_s: 0.01, slices: 2}\n"
        "models:\n  tiny: {path: m.onnx}\nruntimes:\n  - backend: ort-cpu\n"
        "  - {backend: ort-cpu, name: one, threads: [1, 2], options: {allow_spinning: true}}\n"
        "scenarios:\n  sweep: {kind: arrays, batch: [1, 2], saturation: 0.05}\n"
        "  boxes: {kind: image-to-boxes, imgsz: [32, 48], models: [tiny]}\n"
    )
    (folder / "run.yaml").write_text(
        "name: night\ncommand: eval-coco\nmodel: shapes-yolov10\narguments: [--limit, '4']\nshards: 2\nfolder: job\n"
        "gpu_types: {h200: NVIDIA H200}\nchecks: {driver: '580.1', packages: {onnx: '1'}}\nslurm: {cpus: 2}\n"
    )
    (folder / "names.yaml").write_text(
        "name: night\ncommand: eval-coco\nmodel: shapes-yolov10\nshards: 2\nfolder: ../out/job\n"
        "kubernetes: {image: i, claim: c}\n"
    )
    (folder / "build.yaml").write_text(
        "precision: [fp16]\nprofiles:\n  - x:1x3/2x3/4x3,y:1x3/2x3/4x3\nworkspace_mib: 64\noptimization_level: 1\n"
        "timing_cache: cache.timing\n"
    )
    (folder / "cache.timing").write_bytes(b"cache" * 20)


def _llm(folder: Path) -> None:
    source = REPOSITORY / "models" / "tiny-lm"
    for name in (
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ):
        shutil.copy(source / name, folder / name)
    (folder / "text.txt").write_text((source / "held-out.txt").read_text(encoding="utf-8")[:2000], encoding="utf-8")


def _runs(folder: Path) -> None:
    """Run directories of every command that has a report, and an engine, made by the commands."""
    coco, plain = folder / "coco", folder / "models" / "plain.onnx"
    data = ("--model", coco / "detector.onnx", "--data", coco / "images", "--annotations", coco / "annotations.json")
    measured = ("--duration", "0.01", "--warmup", "0", "--iterations", "3")
    text = ("--limit", "40", "--window", "16", "--backends", "torch", "--no-report")
    for words in (
        ("eval-coco", *data, "--backend", "ort-cpu", "--output", folder / "runs" / "eval-coco"),
        ("bench", folder / "settings" / "bench.yaml", "--only", "sweep/tiny b1", "--output", folder / "runs" / "bench"),
        ("profile", plain, "--backend", "ort-cpu", "--iterations", "2", "--output", folder / "runs" / "profile"),
        (
            "eval-stream",
            folder / "streaming" / "attention.onnx",
            *("--contract", folder / "streaming" / "contract.json", "--backend", "ort-cpu", "--chunks", "6"),
            *("--record", "--no-report", "--output", folder / "runs" / "eval-stream"),
        ),
        ("verify", plain, "--backend", "ort-cpu", "--quick", "--record", "--output", folder / "runs" / "verify"),
        ("infer-engine", plain, *measured, "--backend", "ort-cpu", "--output", folder / "runs" / "infer-engine"),
        (
            "eval-llm",
            folder / "llm",
            "--text",
            folder / "llm" / "text.txt",
            *text,
            "--output",
            folder / "runs" / "eval-llm",
        ),
        ("build-engine", plain, "--profile", "x:1x3/2x3/4x3,y:1x3/2x3/4x3", "-o", folder / "engine" / "model.plan"),
    ):
        _trtw(folder, *words)


def _trtw(folder: Path, *words: object) -> None:
    process = get_context("fork").Process(target=_call, args=(folder, [str(word) for word in words]))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"The seed of {words[0]} could not be made: {(folder / 'said').read_text()[-800:]}")


def _call(folder: Path, words: list[str]) -> None:
    from trt_workbench.main import main

    said = os.open(folder / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number in (1, 2):
        os.dup2(said, number)
    os.environ["TRTW_TMP"] = str(folder / "tmp")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(DOUBLES), os.environ.get("PYTHONPATH", "")])
    sys.argv = ["trtw", *words]
    main()
