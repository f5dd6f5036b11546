"""The same files as BPF, for the kernel of this machine."""

from __future__ import annotations

import hashlib
from pathlib import Path

from polypath import programs

from ._compile import Algorithm, complaint
from ._errors import CustomCcError
from ._folders import cache, sources, work_folder


def bpf_objects_for(algorithm: Algorithm) -> tuple[Path, Path]:
    """What a kernel loads, and what calls the hooks in it, compiled if they are not there; needs
    clang and the headers of libbpf.
    """
    loaded, driven = (cache() / f"{algorithm.name}-{algorithm.hash}-{_glue()}.{part}.o" for part in ("bpf", "drive"))
    if loaded.is_file() and driven.is_file():
        return loaded, driven
    with work_folder() as folder:
        done = programs.run("sh", sources() / "bpf" / "build.sh", folder, algorithm.file.resolve())
        if done.returncode:
            if done.stderr.startswith("build.sh: "):
                raise CustomCcError(f"{algorithm.file} cannot become BPF: {done.stderr.strip().removeprefix('build.sh: ')}")
            raise CustomCcError(complaint(algorithm, done.stderr, "as BPF"))
        for target, part in ((loaded, "bpf"), (driven, "drive")):
            (folder / f"pp_{algorithm.name}.{part}.o").replace(target)
    return loaded, driven


def _glue() -> str:
    """Of what makes an algorithm BPF."""
    files = sorted((sources() / "bpf").iterdir())
    return hashlib.sha256(b"".join(file.name.encode() + file.read_bytes() for file in files)).hexdigest()[:8]
