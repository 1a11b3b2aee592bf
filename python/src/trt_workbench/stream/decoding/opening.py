"""Opens the parts of a decoder beside a contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trt_workbench.backends.base import Session
from trt_workbench.core.files import require_file
from trt_workbench.engine.profiles import Profile, ShapeRange
from trt_workbench.stream.contract.decoding import Decoding
from trt_workbench.stream.contract.model_tensors import MODEL_SUFFIX, read_tensors
from trt_workbench.stream.decoding.ctc import Ctc
from trt_workbench.stream.decoding.parts import Joiner, TextPredictor
from trt_workbench.stream.decoding.transducer import Decoder, Transducer
from trt_workbench.stream.decoding.vocabulary import Vocabulary

Load = Callable[[Path, Profile | None], Session]
"""Opens a file in the ranges of shapes that it will be called with."""


@contextmanager
def open_decoder(said: Decoding, folder: Path, load: Load, capacity: int) -> Iterator[Decoder]:
    """Yield the decoder of a contract, with room for so many streams.

    Args:
        said: of the contract.
        folder: of the contract.
        load: opens sessions, which the caller closes.
        capacity: most streams that are open at once.

    Raises:
        UsageProblem: a file is missing, or its tensors are not those of its part.
    """
    # NeMo's vocabularies leave out the blank, their last
    tokens = max(max(Vocabulary(folder / said.tokens).pieces), said.blank) + 1
    if said.decoder is None or said.joiner is None:
        yield Ctc(said.blank, tokens)
        return
    decoder, joiner = (load(path, _profile(path, capacity)) for path in _files(said, folder))
    predictor = TextPredictor(decoder, said, capacity)
    try:
        yield Transducer(predictor, Joiner(joiner), said, tokens)
    finally:
        predictor.release()


def _files(said: Decoding, folder: Path) -> Iterator[Path]:
    for key, name in (("decoder", said.decoder), ("joiner", said.joiner)):
        path = folder / str(name)
        require_file(f"contract's decoding.{key}", path)
        yield path


def _profile(path: Path, most: int) -> Profile | None:
    """Return the ranges of a part: up to so many streams along its first dynamic dimension, 1 along any other."""
    if path.suffix != MODEL_SUFFIX:
        return None
    ranges = {}
    for name, tensor in read_tensors(path).inputs.items():
        shape = tensor.shape or ()
        free = [axis for axis, size in enumerate(shape) if not isinstance(size, int)]
        if free:
            least = [size if isinstance(size, int) else 1 for size in shape]
            whole = [most if axis == free[0] else size for axis, size in enumerate(least)]
            ranges[name] = ShapeRange(min=tuple(least), opt=tuple(whole), max=tuple(whole))
    return Profile(shapes=ranges) if ranges else None
