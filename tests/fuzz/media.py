"""Mutations of media files, of what a container names, and of records, whose seals are made anew."""

import contextlib
import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

from tests.fuzz.mutations import BY_SUFFIX, Rng, mutate_bytes, mutate_npz

from trt_workbench.core.hashing import hash_document, hash_file

_WORDS = (0, 1, 7, 8, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_FORMAT = struct.Struct("<HHIIHH")


def mutate_wav(data: bytes, rng: Rng) -> bytes:
    """Mutate the format, the lengths that chunks declare, or the order of the chunks; or the bytes."""
    if rng.random() < 0.3:
        return mutate_bytes(data[:200], rng) + data[200:]
    fields = list(_FORMAT.unpack(data[20:36]))
    for place in rng.sample(range(6), rng.choice((0, 1, 1, 2))):
        top = 2**32 - 1 if place in (2, 3) else 2**16 - 1
        fields[place] = min(rng.choice((0, 1, 3, 8, 16, 24, 32, 2**31, 2**32 - 1)), top)
    form = b"fmt " + struct.pack("<I", rng.choice((16, 16, 16, 0, 18, 2**32 - 1))) + _FORMAT.pack(*fields)
    sound = data[44:] * rng.choice((0, 1, 1, 3))
    body = b"data" + struct.pack("<I", rng.choice((len(sound), len(sound), *_WORDS))) + sound
    extra = rng.choice((b"", b"LIST\xff\xff\xff\xff", b"JUNK\0\0\0\0" * 5000))
    parts = rng.choice(([form, body], [form, extra, body], [body, form], [form, form, body], [form]))
    size = rng.choice((sum(map(len, parts)) + 4, 0, 2**32 - 1))
    return rng.choice((b"RIFF", b"RIFF", b"RF64")) + struct.pack("<I", size) + b"WAVE" + b"".join(parts)


def mutate_video(data: bytes, rng: Rng) -> bytes:
    """Put a script that names other files in its place, let a box declare another size, or mutate the bytes."""
    kind = rng.random()
    if kind < 0.35:
        return script(rng)
    if kind < 0.7:
        boxes = (b"ftyp", b"moov", b"mdat", b"trak", b"stsz", b"stco")  # of MP4: the size stands before the name
        chunks = (b"RIFF", b"avih", b"strh", b"strf", b"movi", b"idx1")  # of AVI: behind it
        found = [place - 4 for mark in boxes if (place := data.find(mark)) >= 4]
        found += [place + 4 for mark in chunks if (place := data.find(mark)) >= 0]
        at = rng.choice(found)
        return data[:at] + struct.pack(rng.choice("<>") + "I", rng.choice(_WORDS)) + data[at + 4 :]
    return mutate_bytes(data, rng)


def script(rng: Rng) -> bytes:
    """Return what FFmpeg would follow to another file: a list, a playlist, a session description."""
    other = rng.choice(("clip.avi", "clip.mp4", "../coco/images/a.png", "/etc/passwd", "p.bin", "http://127.0.0.1:9/x"))
    texts = (
        "ffconcat version 1.0\nfile {}\n",
        "ffconcat version 1.0\nfile '{0}'\nfile '{0}'\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{}\n#EXT-X-ENDLIST\n",
        "v=0\no=- 0 0 IN IP4 127.0.0.1\nm=video 9 RTP/AVP 96\na=control:{}\n",
        '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><Period><BaseURL>{}</BaseURL></Period></MPD>',
    )
    lead = rng.choice(("", "", "\ufeff", "\n", "# " + "x" * 3000 + "\n"))
    return (lead + rng.choice(texts).format(other)).encode()


def lying_archive(rng: Rng) -> bytes:
    """Return an .npz whose header declares far more than the archive holds, in its own words and in zip's."""
    shape = rng.choice(("(1099511627776,)", "(65536, 65536, 16)", "(4294967296, 1)"))
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    inside = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + bytes(64)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as target:
        target.writestr("x.npy", inside)
        target.writestr("y.npy", inside)
    length = struct.pack("<I", len(inside))
    return made.getvalue().replace(length, b"\xfe\xff\xff\xff") if rng.random() < 0.5 else made.getvalue()


def is_script(path: Path) -> bool:
    """Whether a file is what `script` makes: no command may follow it to the file that it names."""
    head = b""
    with contextlib.suppress(OSError):  # a word that is longer than a name may be
        head = path.read_bytes()[:4000] if path.is_file() else b""
    return any(mark in head for mark in (b"ffconcat version", b"#EXTM3U", b"v=0\no=", b"<MPD"))


def seal(folder: Path) -> bool:
    """Make the hashes of a record, or of a plan's manifest, those of what it holds; whether there were any."""
    sealed = False
    for path in [*folder.rglob("record.json"), *folder.rglob("*.plan.json")]:
        if not path.is_file():  # a pipe by now, which would be waited for
            continue
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            for part in _objects(document):
                file = path.parent / str(part.get("file", ""))
                if "sha256" in part and "file" in part and file.is_file():
                    part["sha256"] = hash_file(file)
            if path.name.endswith(".plan.json"):
                plan = path.with_suffix("")
                document["engine"] |= {"sha256": hash_file(plan), "size_bytes": plan.stat().st_size}
            else:
                document["sha256"] = hash_document({key: one for key, one in document.items() if key != "sha256"})
            path.write_text(json.dumps(document), encoding="utf-8")
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):  # mutated beyond that
            continue
        sealed = True
    return sealed


def _objects(node: Any) -> list[dict[str, Any]]:
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [node] * isinstance(node, dict) + [found for one in inner for found in _objects(one)]


def _archive(data: bytes, rng: Rng) -> bytes:
    if rng.random() < 0.2:
        return lying_archive(rng)
    try:
        return mutate_npz(data, rng)
    except (EOFError, ValueError, zipfile.BadZipFile):  # a lying archive already, or damaged
        return mutate_bytes(data, rng)


BY_SUFFIX |= {".wav": mutate_wav, ".mp4": mutate_video, ".avi": mutate_video, ".npz": _archive}
