"""`quantize --keep-score` on detectors, and AP of what it makes on images that the search never saw.

Usage: mixed.py MODEL IMAGES ANNOTATIONS OUT.jsonl [OPTION…]
       mixed.py --embedded OUT.jsonl [OPTION…]

The search has the images at even places of the annotation file, of which one half gives ranges and the other the score;
the images between are unseen. The embedded detector is searched on 128 scenes of another seed than the 200 unseen ones.
Further options go to `trtw quantize`. Candidate, trials and report lie in `OUT/`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import _CALIBRATION_SEED, split

from trt_workbench.core.documents import read_document
from trt_workbench.core.workspace import embedded_model
from trt_workbench.model.low_precision.evidence import Evidence
from trt_workbench.quantize.scores import coco_scores
from trt_workbench.vision.run import CocoEvaluation, CocoRequest
from trt_workbench.vision.scenes.dataset import make_embedded_dataset
from trt_workbench.vision.scenes.scenes import write_dataset


def main() -> None:
    """Search, score on unseen images, and append one line."""
    words = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if words[0] == "--embedded":
            out, options = Path(words[1]), words[2:]
            model, place = embedded_model(), make_embedded_dataset()
            images, unseen = place.images, place.annotations
            write_dataset(folder, "calibration", 128, _CALIBRATION_SEED)
            seen, annotations = folder / "calibration", folder / "annotations" / "instances_calibration.json"
        else:
            model, images, annotations, out = map(Path, words[:4])
            options = words[4:]
            seen, unseen = split(images, annotations, folder)
        target = out.with_suffix("") / f"{model.stem}.onnx"
        began = time.monotonic()
        command = ["trtw", "quantize", str(model), "--to", "int8", "--keep-score", "0.005", "--output", str(target)]
        command += ["--calibration", str(seen), "--annotations", str(annotations), *options]
        subprocess.run(command, check=True)
        seconds = time.monotonic() - began
        evidence = read_document(target.with_suffix(".json"), Evidence)
        assert evidence.search is not None
        scores = []
        for place, path in enumerate((model, target)):
            found = folder / str(place)
            found.mkdir()
            with CocoEvaluation(CocoRequest(model=path, images=images, annotations=unseen, backend="ort-cpu")) as one:
                one.run(found)
            scores.append(coco_scores(found, 0))
        row = scores[1].against(scores[0])
        record = {
            "model": model.name,
            "options": options,
            "method": evidence.method,
            "search": evidence.search.model_dump(mode="json"),
            "kept": sorted(evidence.kept),
            "low_macs": evidence.low_macs,
            "search_s": round(seconds),
            "unseen_images": scores[0].count,
            "unseen_fp32": scores[0].value,
            "unseen_value": row.value,
            "unseen_loss": row.loss,
            "unseen_loss_ci95": row.loss_ci95,
        }
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    sys.stdout.write(f"unseen: loss {row.loss:.4f} ({row.loss_ci95})\n")


if __name__ == "__main__":
    main()
