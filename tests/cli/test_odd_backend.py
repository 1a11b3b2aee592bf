"""A backend of another package that fails: every command says so with its name and exit code 4, or in a row."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.in_app import stderr_of, stdout_of
from tests.onnx_text import write_onnx
from tests.texts import held

from trt_workbench.vision.scenes import dataset as embedded

FOLDER = Path(__file__).parents[1] / "odd"
MODEL = Path(__file__).parents[2] / "models" / "shapes-yolov10" / "shapes-yolov10.onnx"
WHO = "Backend odd (package addon 1.0) failed in "

COMMANDS = {
    "infer-engine": ("infer-engine", "{model}", "--backend", "odd", "--no-bench"),
    "bench of a model": ("infer-engine", "{model}", "--backend", "odd", "--duration", "0.01", "--warmup", "0"),
    "eval-coco": ("eval-coco", "--backend", "odd", "--limit", "4"),
    "verify": ("verify", "{model}", "--backend", "odd", "--quick"),
    "bench": ("bench", "{bench}"),
    "predict": ("predict", MODEL, "{image}", "--backend", "odd"),
}


@pytest.fixture(autouse=True)
def odd(outside_package: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    outside_package({"trt_workbench.backends": {"odd": "odd_backend:OddBackend"}}, FOLDER)
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    monkeypatch.setattr(embedded, "HELD_OUT_IMAGES", 8)


@pytest.fixture
def words(tmp_path: Path) -> Callable[[str], list[object]]:
    import cv2
    import numpy as np

    model = write_onnx(tmp_path / "m.onnx", "g (float[N,3] x) => (float[N,3] y) { y = Relu(x) }")
    bench = tmp_path / "bench.yaml"
    bench.write_text(
        "repetitions: 2\nmeasure: {warmup_ms: 1, duration_s: 0.02, min_iterations: 2, slices: 2}\n"
        f"models: {{relu: {{path: {model}}}}}\nruntimes: [{{backend: odd}}]\nscenarios: {{arrays: {{kind: arrays}}}}\n"
    )
    image = tmp_path / "image.png"
    cv2.imwrite(str(image), np.zeros((64, 64, 3), np.uint8))
    known = {"{model}": model, "{bench}": bench, "{image}": image}
    return lambda name: [known.get(str(one), one) for one in COMMANDS[name]] + ["--output", tmp_path / "run"]


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    "what",
    [
        "_load:KeyError('x')",
        "availability:TypeError('x')",
        "_infer:SystemExit(0)",
        "_infer:{}",
    ],
)
def test_no_command_ends_in_a_traceback_or_as_wrong(
    words: Callable[[str], list[object]], monkeypatch: pytest.MonkeyPatch, name: str, what: str
) -> None:
    monkeypatch.setenv("TRTW_ODD", what)
    held(stderr_of(*words(name), code=4))


def test_what_interrupts_a_worker_is_the_backends(
    words: Callable[[str], list[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRTW_ODD", "_load:KeyboardInterrupt()")
    said = stderr_of(*words("bench"), code=4)
    held(said)
    assert "Traceback" not in said
    assert "File " not in said


def test_backends_lists_it_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_ODD", "availability:SystemExit(1)")
    assert "failed in availability: SystemExit: 1" in " ".join(stdout_of("backends").split())
