"""Mutations of files: of their bytes, and of what their format means."""

import copy
import io
import json
import os
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import yaml
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

Rng = random.Random
NUMBERS = [0, 1, -1, 2, 7, 127, 255, 2**31 - 1, -(2**31), 2**31, 2**32, 2**63 - 1, -(2**63), 2**63, 2**70, 10**30]
FLOATS = [0.0, -0.0, 1e-320, 0.5, -1.0, 1e18, 1e308, float("inf"), float("-inf"), float("nan")]
TEXTS = [
    "",
    " ",
    "x",
    "a" * 5000,
    "../../evil",
    "/../../evil",
    "/etc/passwd",
    "C:\\x",
    "\x1b[31mred\x1b[0m",
    "a\0b",
    "\ud800",
    "b\udcffad.jpg",
    "$\\frac{$",
    "<script>alert(1)</script>",
    "{{ 7*7 }}",
    "]]>",
    "%s%n",
    "\u202eabc",
    "é" * 40,
    "a\nb",
    "nan",
    "1e999",
    "2026-01-01T00:00:00",
    "0001-01-01T00:00:00+00:00",
    "yesterday",
    "\u0663",
    "javascript:alert(1)",
    "\n    touch pwned # ",
    "'; touch pwned; '",
    "$(touch pwned)",
    '"""\nopen("pwned", "w")\n"""',
    "a: {b: c} #",
    "0x_",
    "2020-13-45",
    "-1",
    "²x3",
    "1" * 5000,
    "[" * 3000,
    "null",
    "=",
    ":",
    "~",
    "*",
    "&a",
    "!!python",
]
SPECIAL = [None, True, False, [], {}, [[]], {"": {}}]


def mutate_bytes(data: bytes, rng: Rng) -> bytes:
    """Flip, insert, remove, repeat, cut or replace bytes, a few times."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        place = rng.randrange(len(made) + 1)
        length = rng.choice((1, 1, 2, 4, 8, 64))
        kind = rng.randrange(7)
        if kind == 0 and place < len(made):
            made[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            made[place:place] = rng.randbytes(length)
        elif kind == 2:
            del made[place : place + length]
        elif kind == 3:
            made[place:place] = made[place : place + length] * rng.choice((2, 16))
        elif kind == 4:
            made[place : place + 4] = struct.pack("<I", rng.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)))
        elif kind == 5:
            text = rng.choice(TEXTS).encode("utf-8", "surrogatepass")
            made[place:place] = text
        elif rng.random() < 0.3:
            del made[place:]
    return bytes(made)


def mutate_document(document: Any, rng: Rng) -> Any:
    """Replace, remove, double or rename parts of a JSON document."""
    made = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(_places(made))
        if not places:
            return _value(rng)
        holder, key = rng.choice(places)
        kind = rng.randrange(6)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, list):
            holder.insert(rng.randrange(len(holder) + 1), copy.deepcopy(holder[key]))
        elif kind == 1:
            holder[rng.choice(TEXTS)] = holder.pop(key)
        elif kind == 2 and isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
            holder[key] = rng.choice([-holder[key], holder[key] * 10**6, holder[key] + 1, str(holder[key])])
        elif kind == 3:
            other, place = rng.choice(places)
            holder[key] = copy.deepcopy(other.get(place) if isinstance(other, dict) else (other or [None])[0])
        else:
            holder[key] = _value(rng)
    return made


def mutate_numbers(document: Any, rng: Rng) -> Any:
    """Replace numbers of a JSON document by the largest, the smallest and what is none."""
    made = copy.deepcopy(document)
    places = [(holder, key) for holder, key in _places(made) if type(holder[key]) in (int, float)]
    for holder, key in rng.sample(places, min(len(places), rng.choice((1, 1, 2, 5)))):
        holder[key] = rng.choice(rng.choice((NUMBERS, NUMBERS, FLOATS)))
    return made


def _places(node: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    waiting = [node]
    while waiting and len(found) < 3000:
        one = waiting.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        for key in keys:
            found.append((one, key))
            waiting.append(one[key])
    return found


def _value(rng: Rng) -> Any:
    return copy.deepcopy(rng.choice(rng.choice((NUMBERS, FLOATS, TEXTS, SPECIAL))))


def mutate_json(data: bytes, rng: Rng) -> bytes:
    """Mutate what a JSON text says, or nest it deeply, or mutate its bytes."""
    kind = rng.random()
    if kind < 0.15:
        return json.dumps(mutate_numbers(json.loads(data), rng)).encode()
    if kind < 0.75:
        return json.dumps(mutate_document(json.loads(data), rng)).encode()
    if kind < 0.8:
        depth = rng.choice((900, 5000, 100_000))
        return rng.choice(([b"[", b"]"], [b'{"a":', b"}"]))[0] * depth
    if kind < 0.83:
        text = data.decode()
        return text.replace(rng.choice("0123456789"), "9" * 5000, 1).encode()
    return mutate_bytes(data, rng)


def mutate_json_lines(data: bytes, rng: Rng) -> bytes:
    """Mutate one line, or double, drop or move lines."""
    lines = data.splitlines(keepends=True)
    place = rng.randrange(len(lines))
    kind = rng.random()
    if kind < 0.7:
        lines[place] = mutate_json(lines[place], rng).replace(b"\n", b"") + b"\n"
    elif kind < 0.85:
        lines.insert(rng.randrange(len(lines)), lines[place])
    else:
        del lines[place]
    return b"".join(lines)


def mutate_yaml(data: bytes, rng: Rng) -> bytes:
    """Mutate the settings, or the text: tokens of YAML, aliases that multiply."""
    kind = rng.random()
    if kind < 0.55:
        document = mutate_document(yaml.safe_load(data), rng)
        try:
            return yaml.safe_dump(document, allow_unicode=True).encode("utf-8", "surrogatepass")
        except (yaml.YAMLError, UnicodeError, RecursionError):
            return repr(document).encode("utf-8", "surrogatepass")
    if kind < 0.6:
        levels = "".join(
            f"l{n}: &l{n} [{','.join([f'*l{n - 1}'] * 9) if n else 'x'}]\n" for n in range(rng.choice((3, 12)))
        )
        return levels.encode() + data
    if kind < 0.85:
        lines = data.decode().splitlines()
        place = rng.randrange(len(lines))
        token = rng.choice(
            [
                "2020-13-45",
                "0x_",
                "0b_",
                "1" * 5000,
                ".inf",
                ".nan",
                "*x",
                "&x [*x]",
                "!!binary x",
                "? [a]",
                "<<: [1]",
                "1:2:3",
                "\t",
                "!!set {a}",
                "!!timestamp x",
                "190:20:30.15",
                "0o9",
                "{",
                "- - -",
            ]
        )
        lines[place] = lines[place].split(":")[0] + ": " + token if rng.random() < 0.7 else token
        return "\n".join(lines).encode()
    return mutate_bytes(data, rng)


def mutate_onnx(data: bytes, rng: Rng) -> bytes:
    """Mutate fields of the message anywhere in it, or its bytes."""
    if rng.random() < 0.15:
        return mutate_bytes(data, rng)
    model = onnx.load_model_from_string(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        messages = _messages(model)
        _mutate_message(rng.choice(messages), messages, rng)
    made = bytes(model.SerializeToString())
    return made.replace(b"\xf0\x9f\x92\xa3", b"\xff\xfe\x00\x1b") if rng.random() < 0.5 else made


def _messages(message: Message) -> list[Message]:
    found, waiting = [], [message]
    while waiting and len(found) < 3000:
        one = waiting.pop()
        found.append(one)
        for field, value in one.ListFields():
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                waiting += list(value) if field.is_repeated else [value]
    return found


def _mutate_message(message: Message, messages: list[Message], rng: Rng) -> None:
    present = [field for field, _ in message.ListFields()]
    field = rng.choice(present if present and rng.random() < 0.8 else list(message.DESCRIPTOR.fields))
    if rng.random() < 0.1:
        message.ClearField(field.name)
        return
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        same = [one for one in messages if one.DESCRIPTOR is field.message_type]
        target = getattr(message, field.name)
        chosen = copy.deepcopy(rng.choice(same)) if same else None
        if not field.is_repeated:
            if chosen is not None and chosen.ByteSize() < 100_000:
                target.CopyFrom(chosen)
        elif target and rng.random() < 0.4:
            del target[rng.randrange(len(target))]
        elif chosen is not None and chosen.ByteSize() < 100_000:
            target.add().CopyFrom(chosen)
        return
    value = _scalar(field, rng)
    if not field.is_repeated:
        setattr(message, field.name, value)
        return
    values = getattr(message, field.name)
    if values and rng.random() < 0.7:
        values[rng.randrange(len(values))] = value
    else:
        values.extend([value] * rng.choice((1, 1, 70)))


def _scalar(field: Any, rng: Rng) -> Any:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        text = rng.choice([*TEXTS, "x", "y", "💣", "Add", "Div", "If", "Loop", "Cast", "EPContext", "com.microsoft"])
        encoded = text.encode("utf-8", "surrogatepass")
        return encoded if field.type == FieldDescriptor.TYPE_BYTES else encoded.decode("utf-8", "replace")
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return rng.choice(FLOATS)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return rng.choice(field.enum_type.values).number
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return rng.random() < 0.5
    bits = 64 if kind in (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64) else 32
    low, high = (0, 2**bits) if "UINT" in str(kind) else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    if kind in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64):
        low, high = 0, 2**bits
    return rng.choice([number for number in [*NUMBERS, 3, 8, 16, 99] if low <= number < high])


def mutate_npy(data: bytes, rng: Rng) -> bytes:
    """Mutate the header, which declares type and shape, or the bytes."""
    if rng.random() < 0.5:
        return mutate_bytes(data, rng)
    shape = rng.choice(
        ["()", "(0,)", "(2, 3)", "(1000000000000,)", "(-1,)", "(2**70,)", f"({'1,' * 70})", "x", "(" * 300]
    )
    kind = rng.choice(["<f4", "<f8", "|O", "<U9", ">f4", "<i8", "|V7", "<M8[s]", "x", "|b1", "<f2"])
    head = (
        f"{{'descr': '{kind}', 'fortran_order': {rng.choice(['False', 'True', '3'])}, 'shape': {shape}, }}\n".encode()
    )
    version = rng.choice((b"\x01\x00", b"\x01\x00", b"\x09\x09"))
    return b"\x93NUMPY" + version + struct.pack("<H", len(head)) + head + data[128:]


def mutate_npz(data: bytes, rng: Rng) -> bytes:
    """Mutate an array in the archive, its name, or the archive's bytes; or pack a bomb."""
    if rng.random() < 0.3:
        return mutate_bytes(data, rng)
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
        names = source.namelist()
        chosen = rng.choice(names)
        for name in names:
            inside = source.read(name)
            if name == chosen:
                inside = mutate_npy(inside, rng) if rng.random() < 0.8 else inside + bytes(30_000_000)
                name = rng.choice(
                    [name, name, rng.choice(TEXTS).replace("\0", "_").encode("utf-8", "replace").decode()]
                )
            target.writestr(name or "_", inside)
    return made.getvalue()


def mutate_png(data: bytes, rng: Rng) -> bytes:
    """Mutate sizes and types in the header, with a checksum that fits, or the bytes."""
    if rng.random() < 0.5 or not data.startswith(b"\x89PNG"):
        return mutate_bytes(data, rng)
    width, height = (rng.choice((0, 1, 32, 20_000, 16_000, 65_535, 2**31 - 1)) for _ in range(2))
    head = struct.pack(
        ">IIBBBBB", width, height, rng.choice((1, 8, 16, 3)), rng.choice((0, 2, 3, 4, 6, 9)), 0, 0, rng.choice((0, 1))
    )
    chunk = b"IHDR" + head
    return data[:12] + chunk + struct.pack(">I", zlib.crc32(chunk)) + data[33:]


def mutate_safetensors(data: bytes, rng: Rng) -> bytes:
    """Mutate the JSON header and its length, or the bytes."""
    if rng.random() < 0.4:
        return mutate_bytes(data[:4000], rng) + data[4000:]
    length = int.from_bytes(data[:8], "little")
    head = mutate_json(data[8 : 8 + length], rng)
    stated = rng.choice((len(head), len(head), 0, 2**63, 2**40))
    return struct.pack("<Q", stated) + head + data[8 + length :]


BY_SUFFIX: dict[str, Callable[[bytes, Rng], bytes]] = {
    ".onnx": mutate_onnx,
    ".json": mutate_json,
    ".jsonl": mutate_json_lines,
    ".yaml": mutate_yaml,
    ".npy": mutate_npy,
    ".npz": mutate_npz,
    ".png": mutate_png,
    ".safetensors": mutate_safetensors,
}


def mutate_file(path: Path, rng: Rng) -> str:
    """Mutate a file in place and return what was done; a few times in a hundred, put something else in its place."""
    if not path.is_file():  # put in its place before, where a command takes it twice
        return f"left {path.name}"
    if rng.random() < 0.06:
        return _replace(path, rng)
    mutate = BY_SUFFIX.get(path.suffix, mutate_bytes)
    data = path.read_bytes()
    try:
        made = mutate(data, rng)
    except (
        ValueError,
        TypeError,
        OverflowError,
        LookupError,
        struct.error,
        RecursionError,
        yaml.YAMLError,
        zipfile.BadZipFile,
    ):  # mutated once already
        mutate, made = mutate_bytes, mutate_bytes(data, rng)
    path.unlink()  # it may be a link to the seed
    path.write_bytes(made)
    return f"{mutate.__name__} {path.name}"


def _replace(path: Path, rng: Rng) -> str:
    kind = rng.choice(("pipe", "zero", "folder", "empty", "gone", "ring", "dangling", "unreadable"))
    data = path.read_bytes()
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "zero":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "ring":
        path.symlink_to(path.name)
    elif kind == "dangling":
        path.symlink_to("nowhere")
    elif kind == "unreadable":
        path.write_bytes(data)
        path.chmod(0)
    return f"{kind} {path.name}"
