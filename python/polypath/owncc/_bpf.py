"""The same files as BPF, for the kernel of this machine."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from ._compile import Own, complaint
from ._errors import OwnCcError
from ._place import cache, sources


def bpf_object_for(own: Own) -> Path:
    """The object that a kernel loads, compiled if it is not there; needs clang and the headers of libbpf."""
    made = cache() / f"{own.name}-{own.hash}-{_glue()}.bpf.o"
    if made.is_file():
        return made
    with tempfile.TemporaryDirectory(dir=made.parent, prefix=".compiling-") as folder:
        done = subprocess.run(
            ["sh", str(sources() / "bpf" / "build.sh"), folder, str(own.file.resolve())],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
        if done.returncode:
            if done.stderr.startswith("build.sh: "):
                raise OwnCcError(f"{own.file} cannot become BPF: {done.stderr.strip().removeprefix('build.sh: ')}")
            raise OwnCcError(complaint(own, done.stderr, "as BPF"))
        (Path(folder) / f"pp_{own.name}.bpf.o").replace(made)
    return made


def _glue() -> str:
    """Of what makes an algorithm BPF."""
    files = sorted((sources() / "bpf").iterdir())
    return hashlib.sha256(b"".join(file.name.encode() + file.read_bytes() for file in files)).hexdigest()[:8]
