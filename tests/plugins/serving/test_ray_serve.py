"""The deployment that the page on Ray Serve shows, served by Ray: right as it stands, wrong with a planted fault."""

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from tests.guides import ROOT
from tests.in_app import json_of, stdout_of, trtw
from tests.unit.backends.small_models import linear

from trt_workbench.core.workspace import models_dir
from trt_workbench.vision.scenes import dataset as embedded

pytest.importorskip("tritonclient.http.aio")
pytest.importorskip("ray.serve", reason="Ray Serve is not installed (ray[serve])", exc_type=ImportError)

DETECTOR = models_dir() / "shapes-yolov10" / "shapes-yolov10.onnx"
_START = """
import sys
import ray
from ray import serve
ray.init(num_cpus=4, include_dashboard=False)
serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
import v2_serve
serve.run(v2_serve.app)
print("serving", flush=True)
sys.stdin.read()
serve.shutdown()
ray.shutdown()
"""


@contextmanager
def ray_serve(folder: Path, page: str, model: Path) -> Iterator[str]:
    """Serve a model by what a page says; ends when its input ends, as `ray stop` would end others' clusters."""
    (folder / "v2_serve.py").write_text(page)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    # without a token, which Ray would write into the user's home
    variables = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "MODEL": str(model)}
    variables["PYTHONPATH"] = str(folder)
    variables.pop("RAY_ADDRESS", None)
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, "-c", _START, str(port)],
            stdin=subprocess.PIPE, stdout=log, stderr=log, env=variables, cwd=folder,
        ) as process,
    ):  # fmt: skip
        try:
            ends, url = time.monotonic() + 240, f"http://127.0.0.1:{port}"
            while process.poll() is None and time.monotonic() < ends:
                with suppress(OSError), urllib.request.urlopen(f"{url}/v2"):
                    break
                time.sleep(0.5)
            else:
                raise AssertionError((folder / "log").read_text(errors="replace")[-4000:])
            yield url
        finally:
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=60)
            process.kill()


def page() -> str:
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/guides/ray-serve.md").read_text(), re.M | re.S)
    return code.replace("@serve.deployment(", "@serve.deployment(num_replicas=2, ")


def test_the_deployment_of_the_page_has_the_boxes_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    monkeypatch.setattr(embedded, "HELD_OUT_IMAGES", 6)
    with ray_serve(tmp_path, page(), DETECTOR) as url:
        words = ("--seed", 1, "--backend", "v2", "--url", url, "--concurrency", 4, "--output", tmp_path / "v2")
        found = json_of("eval-coco", *words)
    stdout_of("eval-coco", "--seed", 1, "--backend", "ort-cpu", "--output", tmp_path / "cpu")
    boxes = [(tmp_path / run / "predictions.json").read_bytes() for run in ("v2", "cpu")]
    assert boxes[0] == boxes[1]
    assert (found["provenance"]["server"], found["provenance"]["server_version"]) == ("ray-serve", "2.60.0")


@pytest.mark.parametrize("fault", ["", "np.roll"])
def test_rows_that_a_batch_mixes_up_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    code, right = page(), "np.split(array, "
    assert right in code
    if fault:
        code = code.replace(right, f"np.split({fault}(array, 1, axis=0), ")
    model = linear(tmp_path / "linear.onnx")
    with ray_serve(tmp_path, code, model) as url:
        result = trtw("verify", model, "--backend", "v2", "--url", url, "--quick", "--dim", "batch=1:2:4")
    assert result.exit_code == (1 if fault else 0), result.output
