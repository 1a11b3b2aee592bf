"""Print one line a row of decisions: the figures at the threshold, their intervals and losses, and the reliability."""

import argparse
import json
from pathlib import Path
from typing import Any

FIGURES = ("AP", "f1", "precision", "recall", "best_f1", "best_f1_threshold", "ece")


def rounded(value: Any) -> Any:
    """Return the same with floats of nine digits."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def main() -> None:
    """Read the run directories of `trtw decide`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    for run in parser.parse_args().runs:
        decision = json.loads((run / "decision.json").read_text())
        for row in decision["rows"]:
            metrics, curves = (
                json.loads((run / row["directory"] / f"{name}.json").read_text()) for name in ("metrics", "curves")
            )
            scores = {decision["figure"]: row["score"], **row["score"]["others"]}
            line = {
                "model": Path(decision["model"]).name,
                "model_sha256": decision["model_sha256"],
                "images": decision["samples"],
                "format": row["precision"],
                **{name: row[name] for name in ("backend", "computes_in", "sha256", "meets", "certain")},
                "threshold": metrics["settings"]["threshold"],
                **{key: metrics[key] for name in FIGURES for key in (name, f"{name}_ci95")},
                "losses": {name: [one["loss"], one["loss_ci95"]] for name, one in scores.items()},
                "reliability": curves["reliability"],
            }
            print(json.dumps(rounded(line), separators=(",", ":")))


if __name__ == "__main__":
    main()
