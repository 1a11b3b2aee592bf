"""`trees` makes TensorRT trees: small real libraries, a git repository with tags. `index` offers wheels to pip."""

import http.server
import os
import shutil
import subprocess
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

VERSION_HEADER = """#define NV_TENSORRT_MAJOR {0} //!< major
#define NV_TENSORRT_MINOR {1}
#define NV_TENSORRT_PATCH {2}
"""
ENTERPRISE_HEADER = """#define TRT_MAJOR_ENTERPRISE {0}
#define TRT_MINOR_ENTERPRISE {1}
#define TRT_PATCH_ENTERPRISE {2}
#define NV_TENSORRT_MAJOR TRT_MAJOR_ENTERPRISE //!< TensorRT major version.
#define NV_TENSORRT_MINOR TRT_MINOR_ENTERPRISE
#define NV_TENSORRT_PATCH TRT_PATCH_ENTERPRISE
"""


def compile_library(path: Path, version: tuple[int, int, int]) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    major, minor, patch = version
    number = major * (10000 if major >= 10 else 1000) + minor * 100 + patch
    path.parent.mkdir(parents=True, exist_ok=True)
    code = f"int getInferLibVersion(void) {{ return {number}; }}\n"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-o", str(path), "-"], input=code, text=True, check=True)


def write_headers(include: Path, version: tuple[int, int, int], *, parser: bool = True) -> None:
    include.mkdir(parents=True, exist_ok=True)
    template = ENTERPRISE_HEADER if version[0] >= 10 else VERSION_HEADER
    (include / "NvInferVersion.h").write_text(template.format(*version))
    (include / "NvInfer.h").write_text("// core\n")
    if parser:
        (include / "NvOnnxParser.h").write_text("// parser\n")


def make_libraries(folder: Path, version: tuple[int, int, int]) -> None:
    major = version[0]
    compile_library(folder / f"libnvinfer.so.{major}", version)
    for stem in ("libnvinfer_plugin", "libnvonnxparser"):
        compile_library(folder / f"{stem}.so.{major}", version)


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *identity, "-C", str(folder), *arguments], check=True, capture_output=True)


def headers_repository(folder: Path, versions: dict[str, tuple[int, int, int]], *, parser: bool = True) -> Path:
    """A repository with `include/` and one tag a version, as the public one of TensorRT has."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "samples").mkdir()
    (folder / "samples" / "big.txt").write_text("not wanted\n")
    for tag, version in versions.items():
        shutil.rmtree(folder / "include", ignore_errors=True)
        write_headers(folder / "include", version, parser=parser)
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", tag)
        git(folder, "tag", tag)
    return folder


@pytest.fixture(scope="session")
def trees() -> SimpleNamespace:
    return SimpleNamespace(
        compile_library=compile_library,
        write_headers=write_headers,
        make_libraries=make_libraries,
        git=git,
        headers_repository=headers_repository,
    )


class Index:
    """A package index at `url` with one wheel, whose bytes it sends as slowly as is wished."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.seconds, self.downloads, self.size, self.wheel = folder, 0.0, 0, 0, Path()
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = self.path.strip("/").split("/")[-1]
                if asked == index.wheel.name:
                    index.send(self)
                elif asked.replace("-", "_") == index.wheel.name.split("-")[0]:
                    self.answer(f'<a href="/{index.wheel.name}">{index.wheel.name}</a>'.encode(), "text/html")
                else:
                    self.send_error(404)

            def answer(self, body: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Keep the tests' output clean."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/simple/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def offer(
        self,
        name: str,
        number: str,
        version: tuple[int, int, int],
        *,
        seconds: float = 0.0,
        tags: str = "py3-none-any",
    ) -> None:
        """Offer a wheel of small libraries and a large file, to be sent within about `seconds`."""
        self.wheel, self.seconds = self.folder / f"{name.replace('-', '_')}-{number}-{tags}.whl", seconds
        make_libraries(self.folder / "lib", version)
        about = f"{name.replace('-', '_')}-{number}.dist-info"
        with zipfile.ZipFile(self.wheel, "w") as archive:
            for library in (self.folder / "lib").iterdir():
                archive.write(library, f"tensorrt_libs/{library.name}")
            archive.writestr("tensorrt_libs/large", os.urandom(2_000_000))
            archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
            archive.writestr(f"{about}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tags}\n")
            archive.writestr(f"{about}/RECORD", "")
        self.size = self.wheel.stat().st_size

    def send(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        """Send the wheel in twenty parts."""
        self.downloads += 1
        body = self.wheel.read_bytes()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        part = len(body) // 20 + 1
        for start in range(0, len(body), part):
            handler.wfile.write(body[start : start + part])
            time.sleep(self.seconds / 20)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / "index").mkdir()
    served = Index(tmp_path / "index")
    yield served
    served.server.shutdown()
    served.server.server_close()
