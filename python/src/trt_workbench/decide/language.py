"""Candidates of a language model's exported graphs, for evaluations: made at their first use and kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from trt_workbench import __version__
from trt_workbench.decide.candidates import make_candidate
from trt_workbench.decide.settings import CalibrationSettings
from trt_workbench.engine.hashing import hash_document, hash_file, hash_model
from trt_workbench.onnxtools.quantize.kinds import CALIBRATED, RANDOM, To
from trt_workbench.system.workspace import output_root


def language_candidates(model: Path, calibration: str | None) -> Callable[[Path, To], Path]:
    """Return what makes a graph of the model in folder `model` in another format; `tmp/candidates/` keeps it.

    Args:
        model: the language model, whose tokenizer cuts the calibration text.
        calibration: a text, or "random"; None where no format needs any.
    """

    def make(graph: Path, to: To) -> Path:
        settings = CalibrationSettings(calibration=calibration, tokenizer=model) if to in CALIBRATED else None
        data = Path(calibration or "")
        key = {
            "version": __version__,
            "graph": hash_model(graph),
            "to": to,
            "settings": str(asdict(settings)) if settings else None,
            "data": hash_file(data) if settings and calibration != RANDOM and data.is_file() else None,
        }
        output = output_root() / "candidates" / hash_document(key)[:16] / f"{graph.stem}.{to}.onnx"
        if not output.is_file():
            make_candidate(graph, to, output, calibration=settings)
        return output

    return make
