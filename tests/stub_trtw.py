"""A program that stands for trtw on a node: it puts finished shards into place, or fails as its folder says.

`python stub_trtw.py FOLDER …`: FOLDER/shards/I is what shard I becomes. A line in FOLDER/faults/I is a failure that
comes first: an exit code, or `kill`. Every start of a shard is a line in FOLDER/starts.
"""

import os
import shutil
import signal
import sys
from pathlib import Path


def main(folder: Path, words: list[str]) -> int:
    if words[0] == "submit":
        return int((folder / "check").read_text()) if (folder / "check").exists() else 0
    shard = words[words.index("--shard") + 1]
    index = shard.split("/")[0] if shard != "auto" else os.environ["JOB_COMPLETION_INDEX"]
    output = Path(words[words.index("--output") + 1])
    with (folder / "starts").open("a", encoding="utf-8") as file:
        file.write(f"{index}\n")
    fault = folder / "faults" / index
    lines = fault.read_text().splitlines() if fault.exists() else []
    if lines:
        fault.write_text("\n".join(lines[1:]))
        sys.stderr.write(f"error: shard {index} fails by {lines[0]}\n")
        if lines[0] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        return int(lines[0])
    if not output.exists():
        shutil.copytree(folder / "shards" / index, output)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
