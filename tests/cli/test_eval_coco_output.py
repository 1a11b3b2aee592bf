"""eval-coco's run directory: written whole, marked partial, or not at all."""

import json
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from shlex import quote
from typing import Any

import pytest
from tests.docker import can_mount
from tests.fork_server import ForkServer
from tests.in_app import trtw
from tests.shards import assert_scored_alike, with_other_digit

from trt_workbench.core import work
from trt_workbench.vision.detections import DetectionStore
from trt_workbench.vision.loop import EvaluationLoop


def test_an_older_run_is_replaced_only_by_a_whole_one(coco: Any) -> None:
    assert coco.invoke("--no-report").exit_code == 0
    before = (coco.output / "metrics.json").read_bytes()
    (coco.images / "4.png").write_bytes(b"broken")
    assert coco.invoke("--no-report").exit_code == 2
    assert (coco.output / "metrics.json").read_bytes() == before
    assert [path.name for path in (coco.root / "runs").iterdir()] == ["one"]


# As a user: root may write anywhere.
AS_USER = """
from tests.fuzz.surroundings import obey_permissions
from trt_workbench.main import eval_coco
obey_permissions()
eval_coco()
"""


def test_output_without_permission(coco: Any, fork_server: ForkServer) -> None:
    (coco.root / "runs").chmod(0o500)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = fork_server.run(AS_USER, *coco.arguments(), env=environment)
    (coco.root / "runs").chmod(0o700)
    assert done.returncode == 2, done.stderr
    said = "The output folder is not writable (Permission denied); choose another with --output"
    assert done.stderr.splitlines()[-1] == f"error: {said}: {coco.output}"
    assert not list((coco.root / "runs").iterdir())


@pytest.mark.parametrize("place", ["/proc/nowhere/run", "/dev/null/run", "/dev/null"])
def test_output_that_cannot_be_written(coco: Any, place: str) -> None:
    result = coco.invoke_exactly([*coco.arguments(), "--output", place])
    coco.assert_refused(result, place)


# In a mount namespace of its own, "runs" is a file system with the given options. Ends with what is left in it.
ON_ANOTHER_DISK = """
import ctypes, os, subprocess, sys
from pathlib import Path
from shlex import quote
options, runs, *arguments = sys.argv[1:]
maps = {"setgroups": "deny", "uid_map": f"0 {os.geteuid()} 1", "gid_map": f"0 {os.getegid()} 1"}
assert ctypes.CDLL(None).unshare(0x10020000) == 0  # CLONE_NEWUSER | CLONE_NEWNS
for name, text in maps.items():
    Path("/proc/self", name).write_text(text)
subprocess.run(["mount", "--make-rprivate", "/"], check=True)
subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", runs], check=True)
from trt_workbench.evaluate.cli import main
sys.argv[1:] = arguments
try:
    main()
finally:
    print("left:", os.listdir(runs))
"""


@pytest.mark.parametrize(
    ("disk", "images", "report", "texts"),
    [
        ("ro", 4, False, ["is not writable (Read-only file system)"]),
        ("size=4k", 4, False, ["No space left on device; make room", "--output"]),
        ("size=16k", 200, False, ["cannot be written (No space left on device)", "--output"]),
        ("size=64k", 4, True, ["No space left on device", "draw it with: trtw report"]),
    ],
    ids=["read-only", "full-at-environment", "full-at-predictions", "full-at-report"],
)
def test_a_disk_that_takes_no_more(
    coco: Any, disk: str, images: int, *, report: bool, texts: list[str], fork_server: ForkServer
) -> None:
    if not can_mount():
        pytest.skip("a small file system cannot be mounted here (unshare --map-root-user --mount)")
    coco.rewrite(images=[{"id": number, "file_name": "2.png"} for number in range(1, images + 1)])
    arguments = [str(coco.root / "runs"), *coco.arguments("--report" if report else "--no-report")]
    process = fork_server.run(ON_ANOTHER_DISK, disk, *arguments)
    assert process.returncode == 2, process.stderr
    for text in texts:
        assert text in process.stderr
    assert "Traceback" not in process.stderr
    assert process.stderr.count("error: ") == (0 if report else 1)
    assert process.stdout.endswith("left: ['one']\n" if report else "left: []\n")  # what was measured is kept


def test_a_file_that_grows_beyond_the_limit(coco: Any) -> None:
    coco.rewrite(images=[{"id": number, "file_name": "2.png"} for number in range(1, 200)])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Python ignores SIGXFSZ, so that the write itself fails; the environment still fits, the predictions do not.
    resource.setrlimit(resource.RLIMIT_FSIZE, (16384, before[1]))
    try:
        result = coco.invoke("--no-report")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    coco.assert_refused(result, "cannot be written (File too large)", "--output")


# Sends a real SIGINT when the fiftieth image is done. SIGINT is set up as in a terminal: shells have background jobs,
# such as a test run, ignore it.
INTERRUPTED_RUN = """
import os, signal
from trt_workbench.evaluate.cli import main
from trt_workbench.vision.detections import DetectionStore

signal.signal(signal.SIGINT, signal.default_int_handler)
calls, original = [], DetectionStore.put

def put(*arguments):
    original(*arguments)
    calls.append(1)
    if len(calls) == 50:
        os.kill(os.getpid(), signal.SIGINT)

DetectionStore.put = put
main()
"""


def test_interrupt_keeps_a_partial_run(coco: Any, fork_server: ForkServer) -> None:
    count = 20_000
    coco.rewrite(images=[{"id": number, "file_name": "2.png"} for number in range(1, count + 1)])
    process = fork_server.run(INTERRUPTED_RUN, *coco.arguments("--no-report", "--json"))
    stdout, stderr = process.stdout, process.stderr
    assert process.returncode == 130, stderr
    metrics = json.loads((coco.output / "metrics.json").read_text())
    assert metrics["status"] == "partial"
    assert 50 <= metrics["images"] < count
    assert metrics["images_requested"] == count
    assert json.loads((coco.output / "run.json").read_text())["status"] == "partial"
    assert json.loads(stdout)["status"] == "partial"
    assert f"Interrupted after {metrics['images']:,} of {count:,} images" in stderr
    assert "Traceback" not in stderr
    lines = (coco.output / "records.jsonl").read_text().splitlines()
    assert [json.loads(line)["image_id"] for line in lines] == list(range(1, metrics["images"] + 1))


@pytest.fixture
def ended_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int | None], list[int]]]:
    """What ends each loop when so many images are begun, as Ctrl-C does; returns a list of the images that are done."""
    take, put, stop, done = EvaluationLoop._take_place, DetectionStore.put, list[int | None](), list[int]()

    def taken(self: EvaluationLoop) -> Any:
        self._stop = self._stop or (stop[-1] is not None and self._next >= stop[-1])
        return take(self)

    def noted(self: DetectionStore, index: int, *more: Any) -> None:
        done.append(int(self._image_ids[index]))
        put(self, index, *more)

    def ends(at: int | None) -> list[int]:
        stop.append(at)
        done.clear()
        return done

    monkeypatch.setattr(EvaluationLoop, "_take_place", taken)
    monkeypatch.setattr(DetectionStore, "put", noted)
    return ends


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    ("more", "ends"), [(("--shard", "0/2"), [1]), ((), [1]), ((), [3]), (("--batch", "2"), [1]), ((), [1, 1, 1])]
)
@pytest.mark.usefixtures("blank_pictures")
def test_a_run_that_was_interrupted_goes_on_and_gives_the_same(
    more: tuple[str, ...], ends: list[int], coco: Any, ended_at: Any, tmp_path: Path
) -> None:
    ended_at(None)
    whole = coco.arguments(*more)
    whole[whole.index("--output") + 1] = str(tmp_path / "whole")
    assert coco.invoke_exactly(whole).exit_code == 0
    seen = []
    for number, end in enumerate([*ends, None]):
        done = ended_at(end)
        result = coco.invoke(*more)
        assert result.exit_code == (0 if end is None else 130), result.output
        assert ("Continuing the run in this folder" in result.stderr) == (number > 0)
        assert end is None or f"continue with `… --output {coco.output}`" in result.stderr
        seen += done
    assert sorted(seen) == sorted({*seen})  # no image twice
    assert len(seen) == (2 if "--shard" in more else 4)
    if "--shard" not in more:
        assert_scored_alike(coco.output, tmp_path / "whole")
        assert not (coco.output / "part").exists()
    assert (coco.output / "predictions.json").read_bytes() == (tmp_path / "whole" / "predictions.json").read_bytes()
    assert len(json.loads((coco.output / "env.json").read_text())["earlier"]) == len(ends)


@pytest.mark.parametrize("change", ["--conf", "--workers", "processor", "images", "part"])
@pytest.mark.usefixtures("blank_pictures")
def test_of_another_evaluation_nothing_is_taken(
    change: str, coco: Any, ended_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_at(2)
    assert coco.invoke("--workers", "1").exit_code == 130
    done = ended_at(None)
    if change == "processor":
        monkeypatch.setattr(work, "cpu_report", lambda: {"model": "another"})
    elif change == "images":
        annotations = json.loads(coco.annotations.read_text())
        coco.annotations.write_text(json.dumps({**annotations, "info": {"year": 1}}))
    elif change == "part":
        text = with_other_digit(coco.output / "part" / "predictions.json")
        result = coco.invoke("--workers", "1")
        assert (result.exit_code, "was changed after the shard was done" in result.stderr) == (2, True)
        (coco.output / "part" / "predictions.json").write_text(text)
        result = coco.invoke("--workers", "1")
        assert (result.exit_code, len(done)) == (0, 2), result.output
        return
    more = {"--conf": ("--conf", "0.1"), "--workers": ("--workers", "2")}.get(change, ())
    result = coco.invoke("--workers", "1", *more)
    assert result.exit_code == 0
    assert "The run in this folder is not continued: " in result.stderr
    assert len(done) == 4


@pytest.mark.long
@pytest.mark.usefixtures("blank_pictures")
def test_what_cannot_be_drawn_costs_the_report_alone(coco: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no\nsuch font")

    monkeypatch.setattr("trt_workbench.vision.report.write_plots", fail)
    result = coco.invoke("--json")
    assert result.exit_code == 2
    again = f"draw it with: trtw report {quote(str(coco.output))}"
    assert (
        f"warning: The report could not be drawn (RuntimeError: no such font). The measurements are kept; {again}"
        in (result.stderr)
    )
    assert json.loads(result.stdout)["images"] == 4
    assert json.loads((coco.output / "run.json").read_text())["status"] == "complete"
    monkeypatch.undo()
    assert trtw("report", coco.output).exit_code == 0
    assert (coco.output / "report.html").is_file()


@pytest.mark.long
@pytest.mark.usefixtures("blank_pictures")
def test_an_earlier_report_does_not_stay_beside_another_run(coco: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert coco.invoke().exit_code == 0
    monkeypatch.setattr("trt_workbench.vision.report.write_plots", None)
    assert coco.invoke().exit_code == 2
    assert not (coco.output / "report.html").exists()
    assert not (coco.output / "plots").exists()


@pytest.mark.parametrize("name", ["$\\frac{$", "[/b]", "a" * 300])
def test_any_category_name_is_reported(coco: Any, name: str) -> None:
    coco.write_model(classes="")
    coco.rewrite(categories=[{"id": 3, "name": name}, {"id": 17, "name": "circle"}])
    result = coco.invoke()
    assert result.exit_code == 0, result.stderr
    assert (coco.output / "report.html").is_file()


INTERRUPTED_DRAWING = """
import os, signal
from trt_workbench.main import eval_coco as main
from trt_workbench.report import style
write = style._write

def interrupted(*arguments):
    os.kill(os.getpid(), signal.SIGTERM)
    write(*arguments)

style._write = interrupted
main()
"""


def test_an_interrupt_while_drawing_costs_the_report_alone(coco: Any, fork_server: ForkServer) -> None:
    process = fork_server.run(INTERRUPTED_DRAWING, *coco.arguments("--json"))
    assert process.returncode == 130, process.stderr
    assert "could not be drawn (interrupted). The measurements are kept" in process.stderr
    assert "Traceback" not in process.stderr
    assert json.loads(process.stdout)["status"] == "complete"
    assert json.loads((coco.output / "run.json").read_text())["status"] == "complete"
    assert [path.name for path in coco.output.parent.iterdir()] == ["one"]
