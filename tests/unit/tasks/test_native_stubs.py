"""The stub file of the core's options is made from their tables."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_stub_file_is_what_the_tables_make() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tasks/native-stubs"), "--check"])
    assert done.returncode == 0, "run tasks/native-stubs"


def test_every_row_of_a_table_is_read() -> None:
    stub = (ROOT / "cpp/python/trt_workbench_native/_options.pyi").read_text(encoding="utf-8")
    for table in (ROOT / "cpp/include/trtw").glob("*.def"):
        for line in table.read_text(encoding="utf-8").splitlines():
            if line.startswith("TRTW_OPTION("):
                name = line.split("(")[1].split(",")[0]
                assert f" {name}: " in stub or f"def {name}(" in stub, name
