"""Fetch the source tree of an ONNX Runtime whose build script the tests call: `python tests/ort_source.py FOLDER`.

Debian's source package is the one that needs no git and no GitHub: 38 MB, of which the build script stays.
"""

import hashlib
import io
import sys
import tarfile
import urllib.request
from pathlib import Path

URL = "http://deb.debian.org/debian/pool/main/o/onnxruntime/onnxruntime_1.21.0+dfsg.orig.tar.xz"
SHA256 = "32df1f82bd6b07b18372c0f387133214905cbde7a586b3ad83f0ed0075f80273"
KEPT = ("/VERSION_NUMBER", "/cmake/CMakeLists.txt", "/tools/ci_build/", "/tools/python/")

if __name__ == "__main__":
    with urllib.request.urlopen(URL, timeout=60) as answer:
        data = answer.read()
    if hashlib.sha256(data).hexdigest() != SHA256:
        sys.exit(f"{URL} is not what it was")
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            _, _, path = member.name.partition("/")
            if member.isfile() and f"/{path}".startswith(KEPT):
                member.name = path
                archive.extract(member, Path(sys.argv[1]), filter="data")
