import io
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.vision import decode
from trt_workbench.vision.decode import ImageReader, image_size, read_image, read_orientation


def picture(height: int = 48, width: int = 64) -> Image.Image:
    noise = np.random.default_rng(7).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(cv2.GaussianBlur(noise, (9, 9), 3))


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def by_pillow(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))[..., ::-1]


def as_ycck(cmyk_jpeg: bytes) -> bytes:
    """Declare the four components to be YCCK: the last byte of Adobe's APP14 segment is 2 instead of 0."""
    at = cmyk_jpeg.index(b"Adobe") + 11
    assert cmyk_jpeg[at] == 0
    return cmyk_jpeg[:at] + b"\x02" + cmyk_jpeg[at + 1 :]


JPEGS = {
    "colour": encoded(picture(), "JPEG"),
    "progressive": encoded(picture(), "JPEG", progressive=True),
    "grey": encoded(picture().convert("L"), "JPEG"),
    "cmyk": encoded(picture().convert("CMYK"), "JPEG"),
    "ycck": as_ycck(encoded(picture().convert("CMYK"), "JPEG")),
}
OTHERS = {
    "alpha.png": encoded(picture().convert("RGBA"), "PNG"),
    "palette.png": encoded(picture().quantize(16), "PNG"),
    "bilevel.png": encoded(picture().convert("1"), "PNG"),
    "plain.bmp": encoded(picture(), "BMP"),
    "lossless.webp": encoded(picture(), "WEBP", lossless=True),
}


@pytest.mark.parametrize(("name", "data"), [*JPEGS.items(), *OTHERS.items()], ids=[*JPEGS, *OTHERS])
def test_pixels_are_those_of_pillow(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    pixels = read_image(path)
    assert pixels.dtype == np.uint8
    assert pixels.shape == (48, 64, 3)
    assert pixels.flags.c_contiguous
    # CMYK: the two round the product with black differently.
    np.testing.assert_allclose(pixels.astype(int), by_pillow(data), atol=1)


def test_sixteen_bit_png_keeps_the_high_byte(tmp_path: Path) -> None:
    levels = np.arange(48 * 64, dtype=np.uint16).reshape(48, 64) * 21
    path = tmp_path / "deep.png"
    path.write_bytes(encoded(Image.fromarray(levels), "PNG"))
    np.testing.assert_allclose(read_image(path)[..., 0].astype(int), levels >> 8, atol=1)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(10))
def test_an_exif_orientation_turns_only_where_asked_for(tmp_path: Path, orientation: int, kind: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True} if kind == "WEBP" else {}
    path = tmp_path / f"turned.{kind.lower()}"
    path.write_bytes(encoded(picture(), kind, exif=exif, **options))
    with Image.open(path) as image:
        stored, upright = (np.asarray(one.convert("RGB"))[..., ::-1] for one in (image, ImageOps.exif_transpose(image)))
    for choice, expected in (("ignore", stored), ("apply", upright)):
        reader = ImageReader(choice)
        np.testing.assert_array_equal(reader(path), expected)
        np.testing.assert_array_equal(read_image(path, choice), expected)
        assert reader(path).flags.c_contiguous
        said = "ignored (the default; --exif apply rotates the image)" if choice == "ignore" else "applied"
        notes = [f"The EXIF rotation of 2 images is {said}."] if 2 <= orientation <= 8 else []
        reader(path)
        assert [note.replace("3 images", "2 images") for note in reader.notes()] == notes


@settings(deadline=None)
@given(st.sampled_from([b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"RIFF\0\0\0\0WEBP"]), st.binary(max_size=80), st.booleans())
def test_any_bytes_have_an_orientation(start: bytes, rest: bytes, exif: bool) -> None:
    wrapped = {
        b"\xff\xd8": b"\xff\xe1" + (len(rest) + 8).to_bytes(2, "big") + b"Exif\0\0" + rest,
        b"\x89PNG\r\n\x1a\n": len(rest).to_bytes(4, "big") + b"eXIf" + rest,
    }.get(start, b"EXIF" + len(rest).to_bytes(4, "little") + rest)
    for order in (b"", b"II*\0", b"MM\0*"):
        assert 1 <= read_orientation(start + (wrapped if exif else rest)) <= 8
        assert 1 <= read_orientation(start + wrapped.replace(rest, order + rest[len(order) :], 1)) <= 8


@pytest.mark.parametrize(("bits", "noted"), [(8, True), (10, True), (12, True), (15, True), (16, False)])
@pytest.mark.parametrize("suffix", ["png", "tiff"])
def test_images_that_leave_much_of_their_16_bits_unused_are_noted(
    tmp_path: Path, bits: int, noted: bool, suffix: str
) -> None:
    levels = np.full((48, 64), 2**bits - 1, np.uint16)
    path = tmp_path / f"deep.{suffix}"
    cv2.imwrite(str(path), levels)
    reader = ImageReader()
    reader(path)
    said = [f"Images with 16 bits per channel: 1, largest value {2**bits - 1} of 65535."] if noted else []
    assert [note.split(" Only the high")[0] for note in reader.notes()] == said


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_a_tiff_of_other_numbers_is_unsupported_not_damaged(tmp_path: Path, dtype: type) -> None:
    path = tmp_path / "deep.tiff"
    if not cv2.imwrite(str(path), np.zeros((8, 8, 3), dtype)):
        pytest.skip("this OpenCV does not write it")
    with refused(UsageProblem):
        read_image(path)


def with_thumbnail(data: bytes) -> bytes:
    """Put a whole little JPEG, with its own end marker, into an APP1 segment."""
    thumbnail = encoded(picture(8, 8), "JPEG")
    return data[:2] + b"\xff\xe1" + (len(thumbnail) + 2).to_bytes(2, "big") + thumbnail + data[2:]


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("name", [*JPEGS, "thumbnail"])
def test_a_jpeg_that_is_cut_short_is_refused(tmp_path: Path, name: str, part: float) -> None:
    data = with_thumbnail(JPEGS["colour"]) if name == "thumbnail" else JPEGS[name]
    path = tmp_path / "short.jpg"
    path.write_bytes(data[: int(len(data) * part)])
    with refused(UsageProblem):
        read_image(path)


def test_a_thumbnail_and_bytes_behind_the_end_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "image.jpg"
    path.write_bytes(with_thumbnail(JPEGS["colour"]) + bytes(100))
    np.testing.assert_array_equal(read_image(path), by_pillow(JPEGS["colour"]))


def test_a_png_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "short.png"
    path.write_bytes(OTHERS["alpha.png"][:-20])
    with refused(UsageProblem):
        read_image(path)


@pytest.mark.parametrize("data", [b"", b"no image at all", b"\xff\xd8\xff"], ids=["empty", "text", "start only"])
def test_what_is_no_image_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "image.jpg"
    path.write_bytes(data)
    with refused(UsageProblem) as caught:
        read_image(path)
    assert str(caught.value).endswith(str(path))


def test_absent_files_and_folders_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.jpg", tmp_path):
        with refused(UsageProblem):
            read_image(path)


def test_a_header_is_read_again_only_where_the_file_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.png"
    Image.new("RGB", (4, 3)).save(path)
    assert image_size(path) == (4, 3)
    with monkeypatch.context() as patch:
        patch.setattr(decode, "_image_size", lambda *_: 1 / 0)
        assert image_size(path) == (4, 3)
    Image.new("RGB", (40, 30)).save(path)
    assert image_size(path) == (40, 30)
