"""Where machines put finished runs down for the client to take: a folder that all see, or storage
that fsspec reaches.

What lies there survives the client: one that starts again takes what was finished meanwhile.
"""

from __future__ import annotations

import os
import socket
import threading
from typing import Any

from polypath.study import StudyError

from ._finished import Finished, packed, unpacked

_SUFFIX = ".run"
# What a client takes into memory: some hours of captures of two fast links.
_MOST_BYTES = 4 << 30
# Storage of objects, of S3, Google and Azure: an object is there whole or not at all, and to rename
# one is to copy it.
_OBJECTS = {"s3", "gs", "abfs"}


class Handover:
    """Finished runs at one URL, a file each, named by key."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError:
            raise StudyError("--handover needs fsspec: pip install fsspec") from None
        self.url = url
        try:
            self._files, self._folder = fsspec.core.url_to_fs(url)
        except (ValueError, ImportError) as error:
            raise StudyError(f"--handover {url}: {str(error).rstrip('.')}") from None

    def put(self, run: Finished) -> None:
        """Puts a run down; it is there whole or not at all."""
        place = self._place(run.key)
        if _OBJECTS & {*([self._files.protocol] if isinstance(self._files.protocol, str) else self._files.protocol)}:
            self._files.pipe_file(place, packed(run))
            return
        aside = f"{place}.{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
        self._files.makedirs(self._folder, exist_ok=True)
        self._files.pipe_file(aside, packed(run))
        self._files.mv(aside, place)

    def keys(self) -> set[str]:
        """Runs that lie there."""
        self._files.invalidate_cache()
        if not self._files.isdir(self._folder):
            return set()
        names = (str(path).rpartition("/")[2] for path in self._files.ls(self._folder, detail=False))
        return {name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)}

    def take(self, key: str) -> Finished:
        """The run of this key; it stays there until `drop`. Raises `StudyError` where what lies
        there is no finished run.
        """
        place = self._place(key)
        try:
            size = self._files.size(place)
            if size is not None and size > _MOST_BYTES:
                raise ValueError(f"it has {size} bytes")
            content: Any = self._files.cat_file(place)
            return unpacked(key, content)
        except ValueError as error:
            raise StudyError(f"{place} is no finished run ({error}): remove it, and run this again") from None

    def drop(self, key: str) -> None:
        """Removes what was taken and kept."""
        self._files.rm_file(self._place(key))

    def _place(self, key: str) -> str:
        return f"{self._folder}/{key}{_SUFFIX}"
