from collections.abc import Callable
from pathlib import Path

import numpy as np
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.engine.calibration import (
    CalibrationImages,
    calibration_batches,
    calibration_files,
    fit_calibration,
    hash_calibration,
)
from trt_workbench.engine.options import Calibration
from trt_workbench.model.facts import ModelTensor


def read_by(read: Callable[[Path], dict[str, np.ndarray]], *files: Path, text: str = "") -> CalibrationImages:
    return CalibrationImages(files, False, read, text, list)


def test_images_go_through_the_given_transform(tmp_path: Path) -> None:
    for name in ("b.jpg", "a.PNG"):
        (tmp_path / name).write_bytes(name.encode())
    seen = []

    def read(path: Path) -> dict[str, np.ndarray]:
        seen.append(path.name)
        return {"images": np.full((3, 2, 2), len(seen), np.float32)}

    (tmp_path / "._a.PNG").write_bytes(b"as macOS leaves them")
    images = read_by(read, *calibration_files(tmp_path))
    (batch,) = calibration_batches(Calibration(data=tmp_path, batch=2), ["images"], images)
    assert seen == ["a.PNG", "b.jpg"]
    assert batch["images"].shape == (2, 3, 2, 2)


def test_the_hash_sees_data_and_transform(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((10, 2), np.float32))
    before = hash_calibration(tmp_path)
    assert hash_calibration(tmp_path, read_by(lambda _: {}, text="letterbox 640")) != before
    np.save(tmp_path / "a.npy", np.ones((10, 2), np.float32))
    assert hash_calibration(tmp_path) != before


def test_the_hash_sees_what_is_read_behind_links_and_nothing_in_hidden_folders(tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    for folder in (elsewhere, data / ".cache", data / "x.npy"):
        folder.mkdir(parents=True)
        np.save(folder / "a.npy", np.zeros((10, 2), np.float32))
    (data / "link").symlink_to("../elsewhere")
    (elsewhere / "back").symlink_to("../data")
    assert calibration_files(data) == [data / "link" / "a.npy", data / "x.npy" / "a.npy"]
    before = hash_calibration(data)
    np.save(data / ".cache" / "a.npy", np.ones((10, 2), np.float32))
    assert hash_calibration(data) == before
    np.save(elsewhere / "a.npy", np.ones((10, 2), np.float32))
    assert hash_calibration(data) != before


def test_mistakes_are_named(tmp_path: Path) -> None:
    with refused(UsageProblem):
        list(calibration_batches(Calibration(data=tmp_path), ["x"]))
    np.save(tmp_path / "a.npy", np.zeros((3, 2), np.float32))
    with refused(UsageProblem):
        fitted(tmp_path, ("N", 2), batch=8)
    with refused(UsageProblem):
        list(calibration_batches(Calibration(data=tmp_path), ["x", "y"]))
    (tmp_path / "b.jpg").touch()
    with refused(UsageProblem):
        list(calibration_batches(Calibration(data=tmp_path), ["x"]))
    (tmp_path / "a.npy").unlink()
    with refused(UsageProblem):
        list(calibration_batches(Calibration(data=tmp_path), ["x"]))


def test_pickles_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with refused(UsageProblem):
        list(calibration_batches(Calibration(data=tmp_path), ["x"]))


def test_inputs_of_different_length(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((4, 1)), y=np.zeros((3, 1)))
    with refused(UsageProblem):
        list(calibration_batches(Calibration(data=tmp_path, batch=1), ["x", "y"]))


def fitted(data: Path, *shapes: tuple[int | str | None, ...], batch: int | None = None) -> int | None:
    inputs = [ModelTensor(f"x{number}", "float32", shape) for number, shape in enumerate(shapes)]
    calibration = Calibration(data=data, batch=batch)
    images = dict.fromkeys(("x0", "x1"), np.zeros((3, 2, 2), np.float32))
    files = [file for file in calibration_files(data) if file.suffix == ".jpg"]
    return fit_calibration(calibration, inputs, read_by(lambda _: images, *files) if files else None).batch


def test_the_batch_fits_the_model_and_the_data(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((20, 3, 2, 2), np.float32))
    assert fitted(tmp_path, ("N", 3, 2, 2)) == 8
    assert fitted(tmp_path, ("N", 3, 2, 2), batch=5) == 5
    assert fitted(tmp_path, (1, 3, 2, 2)) == 1
    assert fitted(tmp_path, (16, 3, "h", None)) == 16
    with refused(UsageProblem):
        fitted(tmp_path, (32, 3, 2, 2))
    np.savez(tmp_path / "b.npz", x0=np.zeros((4, 2), np.float32), x1=np.zeros((4, 2), np.float32))
    with refused(UsageProblem):
        fitted(tmp_path / "b.npz", (2, 2), (4, 2))


def test_images_are_tried_before_the_build(tmp_path: Path) -> None:
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).write_bytes(b"an image")
    assert fitted(tmp_path, (1, 3, 2, 2)) == 1
    with refused(UsageProblem):
        fitted(tmp_path, (1, 3, 4, 4))
    with refused(UsageProblem):
        fitted(tmp_path, (1, 3, 2, 2), (1, 4, 2, 2))
