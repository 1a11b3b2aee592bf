"""Pictures of every kind of report: `python -m tests.screenshots docs/pictures/reports`.

At two widths, light and dark; with `--whole` in print, too.

Reports of committed records are drawn again; the others are made by their commands, on the processor, in some minutes.
Needs Chromium. The pictures show the first screens and have few colours, so that they stay small. `--pages` keeps the
reports themselves instead, which the docs site shows.
"""

import argparse
import html
import io
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from tasks.benchmarks.upgrade.plant import plant, write_model
from tests.browser import Browser, browser
from tests.kept_reports import checked_target, decided_on_a_gpu, kept
from tests.run_folders import bench_folder, scored_folder
from tests.streaming_models import attention, contract_of, write_contract
from tests.unit.quantize.planted import planted_data, planted_model

from trt_workbench.core.workspace import embedded_model
from trt_workbench.overview.report import write_overview
from trt_workbench_history.run import write_history

ROOT = Path(__file__).parents[1]
WIDTHS = {390: 780, 1280: 940}
"""Pixels of a window, and how many of the page's height are kept."""
_COLOURS, _APART = 30, 42
_GROUNDS, _NEARLY = 9, 8  # the most frequent colours are those of areas, which are near one another
PAPER = 700
"""Pixels of CSS between the margins of a sheet of A4."""
_START = "import sys; sys.argv[0] = 'trtw'; from trt_workbench.main import main; main()"
_ENTRY = "[trt_workbench.backends]\nfaulty = tests.faulty_backend:FaultyBackend\n"


def command(folder: Path, output: str, *words: object, code: int = 0) -> Path:
    """Run a command in a folder, and return the report that it wrote."""
    path = os.pathsep.join(map(str, (folder, ROOT / "python" / "src", ROOT)))
    variables = {**os.environ, "PYTHONPATH": path, "TRTW_TMP": str(folder / "tmp"), "COLUMNS": "100"}
    call = [sys.executable, "-c", _START, *map(str, words)]
    done = subprocess.run(call, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == code, f"{words}: {done.stderr[-2000:]}"
    return folder / output / "report.html"


def searched(folder: Path) -> Path:
    """Search for the groups of a small model to leave alone."""
    data, model = planted_data(folder), planted_model(folder / "m.onnx")
    asked = ["--to", "int8", "--calibration", data.calibration, "--seed", 3, "--score", "cosine", "--keep-score", 0.001]
    return command(folder, "made.search", "quantize", model.name, *asked, "--output", "made.onnx")


_GATE = """
model: shapes-yolov10
verify: {backend: ort-cpu, quick: true}
score: {backend: ort-cpu, limit: 40, at_least: {AP: 0.95}}
latency: {backends: ort-cpu, at_most_ms: 500}
"""


def upgraded(folder: Path, model: str) -> Path:
    """Compare a stack with one in which a fault is planted, on a model that it breaks and one that it does not."""
    for name in ("old", "new"):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / name], check=True)
    plant(folder / "new")
    write_model(folder / "gated.onnx")
    words = ["--from", "old", "--to", "new", "--backend", "ort-cpu", "--quick", "--repetitions", 3]
    return command(folder, "upgraded", "upgrade", model, "gated.onnx", *words, "--output", "upgraded", code=1)


def apart(folder: Path, model: str) -> Path:
    """Profile a model in int8 against itself in fp32."""
    asked = ["--to", "int8", "--calibration", "random", "--output", "low.onnx"]
    command(folder, "", "quantize", model, *asked)
    words = ["--backend", "ort-cpu", "--against", model, "--output", "apart"]
    return command(folder, "apart", "profile", "low.onnx", *words)


def followed(folder: Path) -> Path:
    """Follow a latency and a score over ten nights, in the seventh of which a change made the model slower."""
    draw = random.Random(0)
    for night in range(10):
        day, commit = f"2026-10-{night + 1:02}T02:00:00+00:00", f"{night:x}" * 40
        levels = {"trt:fp16": 1.0 if night < 6 else 1.1, "ort-cuda:fp32": 3.0}
        medians = {name: [level * draw.gauss(1, 0.003) for _ in range(9)] for name, level in levels.items()}
        bench_folder(
            folder / f"bench-{night}", medians, day, commit, unstable=["the clock moved"] if night == 3 else []
        )
        scored_folder(folder / f"score-{night}", 0.412, (0.40, 0.424), day, commit)
    return write_history(folder, folder, "dates")


def reports(folder: Path, only: set[str]) -> dict[str, Path]:
    """Make a report of every kind. The folder becomes the place of all files."""
    model = shutil.copy(embedded_model(), folder)
    name = Path(model).name
    faulty = folder / "faulty-1.dist-info"
    faulty.mkdir()
    (faulty / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1\n", encoding="utf-8")
    (faulty / "entry_points.txt").write_text(_ENTRY, encoding="utf-8")
    contract = write_contract(folder / "contract.json", contract_of("attention"))
    stream = attention(folder)
    gate = folder / "gate.yaml"
    gate.write_text(_GATE, encoding="utf-8")
    verified = ["verify", name, "--backend", "faulty", "--quick", "--dim", "batch=1:2:3", "--output", "verified"]
    decided = ["decide", "--limit", 40, "--repetitions", 5, "--precisions", "fp32,fp16,int8,int8-mixed,fp8"]
    make: dict[str, Callable[[], Path]] = {
        "eval-coco": lambda: command(folder, "scored", "eval-coco", "--limit", 100, "--output", "scored"),
        "decide": lambda: decided_on_a_gpu(folder / "decided-on-a-gpu"),
        # on a processor every lower precision is simulated, and none can be recommended
        "decide-cpu": lambda: command(folder, "decided", *decided, "--output", "decided"),
        "bench": lambda: kept(folder, "bench-h200/vit"),
        "eval-llm": lambda: kept(folder, "eval-llm/perplexity"),
        "eval-stream": lambda: kept(folder, "eval-stream/encoder-ort"),
        "profile": lambda: command(folder, "profiled", "profile", name, "--backend", "ort-cpu", "--output", "profiled"),
        "verify": lambda: command(folder, "verified", *verified, "--option", "fault=rows after the first", code=1),
        "sensitivity": lambda: command(
            folder, "groups", "sensitivity", name, "--to", "int8", "--calibration", "random", "--output", "groups"
        ),
        "quantize": lambda: searched(folder),
        "check-contract": lambda: command(
            folder, "contract", "check-contract", contract.name, stream.name, "--output", "contract"
        ),
        "check-target": lambda: checked_target(folder / "target"),
        "upgrade": lambda: upgraded(folder, name),
        "gate": lambda: command(folder, "gated", "gate", gate.name, "--output", "gated", code=1),
        "difference": lambda: apart(folder, name),
        "history": lambda: followed(folder / "nights"),
    }
    made = {kind: one() for kind, one in make.items() if not only or kind in only}
    if not only or "overview" in only:
        runs = [path.parent for kind, path in made.items() if kind not in ("check-target", "decide", "history")]
        made["overview"] = write_overview(runs, folder / "overview")
    return made


def keep_pages(made: dict[str, Path], output: Path) -> None:
    """Keep the reports, each by the name of its kind; the overview leads to the others, and no link to what is gone."""
    for kind, path in made.items():
        text = path.read_text(encoding="utf-8")
        for other, place in made.items():
            text = text.replace(f'href="{html.escape(os.path.relpath(place, path.parent))}"', f'href="{other}.html"')
        kept_only = re.sub(rf'<a href="(?!(?:{"|".join(made)})\.html"|#|https:)[^"]*">(.*?)</a>', r"\1", text)
        (output / f"{kind}.html").write_text(kept_only, encoding="utf-8")


def picture(page: Browser, path: Path, height: int) -> None:
    """Write the first screens of the page that is open, as a PNG with a palette."""
    page.picture(path)
    image = Image.open(io.BytesIO(path.read_bytes())).convert("RGB")
    shown = image.crop((0, 0, image.width, min(image.height, height)))
    shown.quantize(palette=_palette(shown), dither=Image.Dither.NONE).save(path, optimize=True)


def _palette(shown: Image.Image) -> Image.Image:
    """Return the most frequent colours that can be told apart: Pillow's own methods mix up lines or grounds."""
    chosen: list[tuple[int, ...]] = []
    for _, colour in sorted(shown.getcolors(1 << 24) or [], reverse=True):
        apart = _NEARLY if len(chosen) < _GROUNDS else _APART
        if all(sum(abs(a - b) for a, b in zip(colour, one, strict=True)) > apart for one in chosen):
            chosen.append(colour)
        if len(chosen) == _COLOURS:
            break
    image = Image.new("P", (1, 1))
    image.putpalette([part for colour in chosen for part in colour])
    return image


def pictures(page: Browser, kind: str, path: Path, output: Path, whole: int | None) -> None:
    """Write the pictures of a report."""
    for width, height in WIDTHS.items():
        for name, dark in (("light", False), ("dark", True)):
            page.open(path, width, dark=dark)
            picture(page, output / f"{kind}-{width}-{name}.png", whole or height)
    if whole:
        page.open(path, PAPER)
        page.show(PAPER, media="print")
        picture(page, output / f"{kind}-print.png", whole)


def main() -> None:
    """Write the pictures, or keep the reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--only", action="append", default=[], help="A kind of report; repeatable.")
    parser.add_argument("--whole", action="store_true", help="Whole pages, to look at them.")
    parser.add_argument("--pages", action="store_true", help="The reports themselves, without pictures.")
    asked = parser.parse_args()
    asked.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="reports-") as place:
        folder = Path(place) / "reports"
        folder.mkdir()
        made = reports(folder, set(asked.only))
        if asked.pages:
            keep_pages(made, asked.output)
            return
        with browser(Path(place) / "profile") as page:
            for kind, path in made.items():
                pictures(page, kind, path, asked.output, 20_000 if asked.whole else None)


if __name__ == "__main__":
    main()
