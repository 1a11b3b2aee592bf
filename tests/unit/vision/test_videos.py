"""Videos are opened by what they hold: no name, and no list of other files, leads anywhere else."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np
import pytest
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision.decode import read_image
from trt_workbench.vision.image_sources import SourceImage, count_frames, find_sources, open_video
from trt_workbench.vision.predicted_pictures import PredictedPictures
from trt_workbench.vision.tasks.registry import Boxes

FRAMES = 5
NOISE = np.random.default_rng(0).integers(0, 256, (FRAMES, 240, 320, 3), np.uint8)


def written(path: Path, code: str = "mp4v") -> bytes:
    video = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*code), 10.0, (320, 240))
    for frame in NOISE:
        video.write(frame)
    video.release()
    content = path.read_bytes()
    path.unlink()
    return content


NAMES = [b"10:30", b"\xff\xfe", b"pipe:0", b"http:x", b"concat:a|b", b"%03d", b"a\nb", b"-", b"file:x", b"fd:0", b" "]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_names(name: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = written(tmp_path / "made.mp4")
    monkeypatch.chdir(tmp_path)
    path = Path(os.fsdecode(name) + ".mp4")
    path.write_bytes(content)
    assert count_frames(path) == FRAMES
    pictures = list(find_sources([path]).pictures())
    assert [one.frame for one in pictures] == list(range(FRAMES))


@pytest.mark.parametrize(("suffix", "code"), [("mp4", "mp4v"), ("mov", "mp4v"), ("avi", "MJPG"), ("mkv", "mp4v")])
def test_the_content_decides_and_not_the_name(suffix: str, code: str, tmp_path: Path) -> None:
    content = written(tmp_path / f"made.{suffix}", code)
    (tmp_path / "other.mpg").write_bytes(content)
    assert count_frames(tmp_path / "other.mpg") == FRAMES


LISTS = {
    "ffconcat": "ffconcat version 1.0\nfile {name}\n",
    "ffconcat with a path": "ffconcat version 1.0\nfile '{path}'\n",
    "HLS": "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile://{path}\n#EXT-X-ENDLIST\n",
    "SDP": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\n",
    "DASH": '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" profiles="urn:mpeg:dash:profile:isoff-on-'
    'demand:2011" type="static"><Period><AdaptationSet mimeType="video/mp4"><Representation id="1" bandwidth="1">'
    "<BaseURL>{path}</BaseURL></Representation></AdaptationSet></Period></MPD>",
    "ASX": "[Reference]\nRef1=file://{path}\n",
    "subtitles": "1\n00:00:00,000 --> 00:00:09,000\n{name}\n",
    "FFmpeg's metadata": ";FFMETADATA1\ntitle={name}\n",
}


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("suffix", ["mp4", "avi", "mkv"])
def test_a_list_of_other_files_is_refused(kind: str, suffix: str, tmp_path: Path) -> None:
    inner = tmp_path / "inner.mp4"
    inner.write_bytes(written(tmp_path / "made.mp4"))
    script = tmp_path / f"a.{suffix}"
    script.write_text(LISTS[kind].format(name=inner.name, path=inner))
    before = os.environ.get("OPENCV_FFMPEG_CAPTURE_OPTIONS")
    with refused(UsageProblem):
        open_video(script)
    assert os.environ.get("OPENCV_FFMPEG_CAPTURE_OPTIONS") == before


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no /proc")
@pytest.mark.parametrize("name", ["a.png", "a.mp4"])
@pytest.mark.parametrize("target", ["/proc/self/status", "/proc/self/mem", "/sys/kernel/uevent_seqnum", "/dev/zero"])
def test_what_the_system_makes_up_is_no_file(name: str, target: str, tmp_path: Path) -> None:
    if not Path(target).exists():
        pytest.skip(f"there is no {target}")
    (tmp_path / name).symlink_to(target)
    with pytest.raises((UsageProblem, OSError), match=r"file of the operating system|a device"):
        read_image(tmp_path / name) if name.endswith("png") else open_video(tmp_path / name)


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def drawn(folder: Path) -> Path:
    with PredictedPictures(folder, Boxes()) as pictures:
        for number, frame in enumerate(NOISE):
            pictures.add(SourceImage(Path("v.mp4"), number, frame.copy(), 10.0), [])
    return folder / "00001-v.mp4"


@pytest.mark.parametrize("size", [0, 100, 4000, 20_000, 60_000])
def test_a_video_that_was_not_written_whole_is_an_error(size: int, tmp_path: Path) -> None:
    with largest_file(size), pytest.raises(UsageProblem, match=f"of its {FRAMES} frames|cannot encode a video"):
        drawn(tmp_path / "pictures")


def test_a_folder_whose_name_is_no_text(tmp_path: Path) -> None:
    assert count_frames(drawn(tmp_path / os.fsdecode(b"\xff"))) == FRAMES


def test_an_error_under_way_counts_more_than_an_unfinished_video(tmp_path: Path) -> None:
    pictures = PredictedPictures(tmp_path / "p", Boxes())
    pictures.add(SourceImage(Path("v.mp4"), 0, NOISE[0].copy(), 10.0), [])
    (tmp_path / "p" / "00001-v.mp4").unlink()
    (tmp_path / "p" / "00001-v.mp4").write_bytes(b"")
    pictures.__exit__(ZeroDivisionError, ZeroDivisionError(), None)


@pytest.mark.parametrize("shape", [(1, 65_500, 3), (1, 65_501, 3), (70_000, 2, 3)])
def test_a_picture_of_any_size_is_written(shape: tuple[int, ...], tmp_path: Path) -> None:
    with PredictedPictures(tmp_path / "p", Boxes()) as pictures:
        pictures.add(SourceImage(Path("a.png"), None, np.zeros(shape, np.uint8)), [])
    (made,) = (tmp_path / "p").iterdir()
    assert read_image(made).shape == shape
    assert made.suffix == (".jpg" if max(shape) <= 65_500 else ".png")


def test_a_folder_gives_its_own_images_and_names_the_folders_that_have_some(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "._a.png").touch()
    with refused(UsageProblem):
        find_sources([tmp_path])
    (tmp_path / "cat" / "a.png").touch()
    with refused(UsageProblem):
        find_sources([tmp_path])
    assert find_sources([tmp_path / "cat"]).files == (tmp_path / "cat" / "a.png",)
