"""Print the table of README.md from the pairs in the files that are named."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from statistics import median


def row(name: str) -> str:
    """Return one file as a row of a Markdown table."""
    found = [json.loads(line) for line in Path(name).read_text(encoding="utf-8").splitlines()]
    slower = Counter(one["slower"] for one in found if one["slower"])
    apart = f"{sum(slower.values())}" + "".join(f", `{runtime}` slower {count}" for runtime, count in slower.items())
    told = sum(None not in one["interval"] for one in found)
    marked = sum(sum(one["unstable"]) for one in found) / (18 * len(found))
    medians = [one["median"] for one in found]
    loads = [one["load"] for one in found]
    return (
        f"| `{name}` | {len(found)} | {apart} | {told} | {min(medians):.2f}, {median(medians):.2f}, {max(medians):.2f} "
        f"| {marked:.0%} | {min(loads):.1f}, {median(loads):.1f}, {max(loads):.1f} |\n"
    )


def main() -> None:
    """Print one row for every file."""
    sys.stdout.write("| file | pairs | ranked apart | with an interval | slower by faster median | unstable | load |\n")
    sys.stdout.write("| --- | --- | --- | --- | --- | --- | --- |\n")
    sys.stdout.writelines(row(name) for name in sys.argv[1:])


if __name__ == "__main__":
    main()
