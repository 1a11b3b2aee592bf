"""Print the table of README.md from the comparisons in the files that are named."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from statistics import median


def row(name: str) -> str:
    """Return one file as a row of a Markdown table."""
    found = [json.loads(line) for line in Path(name).read_text(encoding="utf-8").splitlines()]
    verdicts = Counter(one["verdict"] for one in found)
    said = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    ratios = [one["ratio"] for one in found]
    width = median(one["ratio_high"] - one["ratio_low"] for one in found)
    load = median(one["load_before"] for one in found)
    return f"| `{name}` | {len(found)} | {said} | {min(ratios):.3f} to {max(ratios):.3f} | {width:.3f} | {load:.1f} |\n"


def main() -> None:
    """Print one row for every file."""
    sys.stdout.write("| file | comparisons | verdicts | ratio | width of its interval | load before |\n")
    sys.stdout.write("| --- | --- | --- | --- | --- | --- |\n")
    sys.stdout.writelines(row(name) for name in sys.argv[1:])


if __name__ == "__main__":
    main()
