"""What `verify --quick` costs and finds, of several source trees in turn.

`python tasks/benchmarks/verify/quick.py OUTPUT.jsonl NAME=python/src… -- MODEL…`, from the repository's root, verifies
each model in each tree, a process each, and adds a line a call: processor seconds, verdict and how much is unproven.
Without models it takes generated ones (`tests/random_models.py`), as many as SEEDS has: each healthy without the
runtime's rewrites, and each with one of the faults of `tests/faulty_backend.py`, as many in one process as MANY says.
`python tasks/benchmarks/verify/quick.py OUTPUT.jsonl` prints sums of such a file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

SEEDS, MANY = range(7000, 7060), 10
PROGRAM = """
import json, sys, tempfile, time
from pathlib import Path
from tests import faulty_backend
from tests.random_models import write_model
from trt_workbench.backends import registry
from trt_workbench.verify.opening import VerifyRequest
from trt_workbench.verify.run import verify

own = registry._load
registry._load = lambda name: faulty_backend.FaultyBackend() if name == "faulty" else own(name)
registry._BACKENDS = {**registry._BACKENDS, "faulty": ""}
for model, fault, seed in json.loads(sys.argv[1]):
    with tempfile.TemporaryDirectory() as folder:
        path, options, faulty_backend.FaultySession.opened = Path(model), {"fault": fault} if fault else {}, 0
        if not model:
            path = Path(folder, "model.onnx")
            write_model(seed, path)
            options = options or {"graph_optimization_level": "disable"}
        backend, began = "faulty" if fault else "ort-cpu", time.process_time() if not model else 0.0
        request = VerifyRequest(target=path, backend=backend, options=options, quick=True, seed=seed)
        try:
            found = verify(request, Path(folder))
            told = {"verdict": found.document["verdict"], "unproven": len(found.unproven)}
        except Exception as error:  # of a fault that an output of this shape cannot have, too
            told = {"verdict": f"none: {error}"[:60]}
        print(json.dumps({**told, "cpu_s": round(time.process_time() - began, 2)}), flush=True)
"""


def verified(tree: Path, jobs: list[tuple[str, str, int]]) -> list[dict[str, Any]]:
    """Verify models in a process; return what was found of each, and its processor seconds."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree.resolve()), str(Path.cwd())])}
    call = [sys.executable, "-c", PROGRAM, json.dumps(jobs)]
    done = subprocess.run(call, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def summed(file: Path) -> None:
    """Print by tree the processor seconds, and of generated models the verdicts."""
    seconds, verdicts = defaultdict[tuple[str, str], float](float), Counter[tuple[str, str, str]]()
    for line in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
        kind = line["case"].partition(" ")[0] if line["case"].startswith(("healthy", "faulty")) else line["case"]
        seconds[line["tree"], kind] += line["cpu_s"]
        verdicts[line["tree"], kind, line["verdict"].partition(":")[0]] += 1
    for (tree, kind), sum_s in seconds.items():
        found = {verdict: count for (*key, verdict), count in verdicts.items() if tuple(key) == (tree, kind)}
        print(f"{kind}, {tree}: {sum_s:.1f} s, {found}")


def main() -> None:
    """Measure and add lines, or print sums."""
    sys.path.insert(0, str(Path.cwd()))
    from tests.faulty_backend import FAULTS, INPUT_FAULTS

    output, words = Path(sys.argv[1]), sys.argv[2:]
    trees = {name: Path(place) for name, _, place in (one.partition("=") for one in words) if place}
    if not trees:
        summed(output)
        return
    models = words[words.index("--") + 1 :] if "--" in words else []
    faults = [*FAULTS, "stuck", "stale", *INPUT_FAULTS]
    jobs = [(Path(one).name, (one, "", 1)) for one in models]
    if not models:
        jobs += [(f"healthy {seed}", ("", "", seed)) for seed in SEEDS]
        chosen = [(faults[place % len(faults)], seed) for place, seed in enumerate(SEEDS)]
        jobs += [(f"faulty {fault}", ("", fault, seed)) for fault, seed in chosen]
    step = 1 if models else MANY
    with output.open("a", encoding="utf-8") as file:
        for start in range(0, len(jobs), step):
            block = jobs[start : start + step]
            for name, tree in trees.items():
                for (case, _), told in zip(block, verified(tree, [job for _, job in block]), strict=True):
                    file.write(json.dumps({"tree": name, "case": case, **told}, separators=(",", ":")) + "\n")
                file.flush()


if __name__ == "__main__":
    main()
