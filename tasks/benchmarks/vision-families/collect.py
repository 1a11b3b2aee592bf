"""Print one line a run of `trtw verify`: its verdict, those of its outputs, the largest difference and its limit."""

import argparse
import json
from collections import Counter
from pathlib import Path


def main() -> None:
    """Read the run directories, named v-MODEL-PRECISION."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    for run in sorted(parser.parse_args().runs):
        document = json.loads((run / "verify.json").read_text())
        outputs = [one for case in document["cases"] for one in case["outputs"]]
        compared = [one for one in outputs if (one["difference"] or {}).get("rel_l2") is not None]
        worst = max(compared, key=lambda one: one["difference"]["rel_l2"])
        (limit,) = worst["limits"].values() if len(worst["limits"]) == 1 else (worst["limits"][document["precision"]],)
        line = {
            "model": run.name.removeprefix("v-").rpartition("-")[0],
            "precision": document["precision"],
            "verdict": document["verdict"],
            "shapes": len(document["cases"]),
            "outputs": Counter(one["verdict"] for one in outputs),
            "largest_rel_l2": float(f"{worst['difference']['rel_l2']:.9g}"),
            "its_limit": float(f"{limit['rel_l2']:.9g}"),
            "rounding_alone": float(f"{limit['noise']:.9g}"),
        }
        print(json.dumps(line))


if __name__ == "__main__":
    main()
