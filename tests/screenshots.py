"""Pictures of every kind of report at two widths, light and dark: `python -m tests.screenshots docs/pictures/reports`.

Reports of committed records are drawn again; the others are made by their commands, on the processor, in some minutes.
Needs Chromium. The pictures show the first screens and have few colours, so that they stay small.
"""

import argparse
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from tests.browser import Browser, browser
from tests.kept_reports import checked_target, kept
from tests.streaming_models import attention, contract_of, write_contract
from tests.unit.quantize.planted import planted_data, planted_model

from trt_workbench.core.workspace import embedded_model
from trt_workbench.overview.report import write_overview

ROOT = Path(__file__).parents[1]
WIDTHS = {390: 1000, 1280: 1200}
"""Pixels of a window, and how many of the page's height are kept."""
_COLOURS, _APART = 48, 42
_GROUNDS, _NEARLY = 5, 8  # the most frequent colours are those of areas, which are near one another
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
    verified = ["verify", name, "--backend", "faulty", "--quick", "--dim", "batch=1:2:3", "--output", "verified"]
    decided = ["decide", "--limit", 40, "--repetitions", 5, "--precisions", "fp32,fp16,int8,int8-mixed,fp8"]
    make: dict[str, Callable[[], Path]] = {
        "eval-coco": lambda: command(folder, "scored", "eval-coco", "--limit", 100, "--output", "scored"),
        # on a processor every lower precision is simulated, and none can be recommended
        "decide": lambda: command(folder, "decided", *decided, "--output", "decided", code=1),
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
    }
    made = {kind: one() for kind, one in make.items() if not only or kind in only}
    if not only or "overview" in only:
        runs = [
            path.parent for kind, path in made.items() if kind not in ("check-target", "check-contract", "quantize")
        ]
        made["overview"] = write_overview(runs, folder / "overview")
    return made


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


def main() -> None:
    """Write a picture of each report at each width, light and dark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--only", action="append", default=[], help="A kind of report; repeatable.")
    parser.add_argument("--whole", action="store_true", help="Whole pages, to look at them.")
    asked = parser.parse_args()
    asked.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="reports-") as place, browser(Path(place) / "profile") as page:
        folder = Path(place) / "reports"
        folder.mkdir()
        for kind, path in reports(folder, set(asked.only)).items():
            for width, height in WIDTHS.items():
                for name, dark in (("light", False), ("dark", True)):
                    page.open(path, width, dark=dark)
                    picture(page, asked.output / f"{kind}-{width}-{name}.png", 20_000 if asked.whole else height)


if __name__ == "__main__":
    main()
