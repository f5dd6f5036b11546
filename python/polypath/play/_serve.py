"""Serves the page on this machine, to this machine alone."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ._errors import PlayError

# Written by `make playground`.
SITE = Path(__file__).parent / "site"
HOST = "127.0.0.1"


def serve(port: int, *, site: Path = SITE, ready: Callable[[str], None]) -> None:
    """Serves until it is interrupted; `ready` hears the address. With port 0 the system chooses
    one.
    """
    if not (site / "polypath.wasm").is_file():
        raise PlayError("the playground is not built: run `make playground` in Polypath's folder")
    try:
        server = ThreadingHTTPServer((HOST, port), partial(_Handler, directory=str(site)))
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        why = "is taken by another program" if error.errno == errno.EADDRINUSE else "is for root alone"
        raise PlayError(f"port {port} {why}: name another one, like `polypath play --port {port + 1 if port < 65535 else 8016}`") from error
    with server:
        ready(f"http://{HOST}:{server.server_port}/")
        server.serve_forever()


# Whatever the machine's own table says: a browser runs no module of another type.
_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
}


# The page runs its own scripts and the simulator, draws and saves what it drew, and asks no other
# server.
_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class _Handler(SimpleHTTPRequestHandler):
    def guess_type(self, path: str | os.PathLike[str]) -> str:
        return _TYPES.get(Path(path).suffix, "application/octet-stream")

    def send_head(self) -> Any:
        # A page of elsewhere whose name is made to mean this machine asks under that name.
        name, _, port = self.headers.get("Host", "").partition(":")
        if name not in (HOST, "localhost") or port not in ("", str(self.connection.getsockname()[1])):
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return None
        if not self._is_of_the_site():
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return super().send_head()

    def _is_of_the_site(self) -> bool:
        """Whether the path leads to a file of the site by no link."""
        try:
            asked = Path(self.translate_path(self.path))
            return asked.resolve() == Path(self.directory).resolve() / asked.relative_to(self.directory)
        except (ValueError, OSError, RuntimeError):
            # A zero in it, or a loop of links.
            return False

    def list_directory(self, path: str | os.PathLike[str]) -> None:
        self.send_error(HTTPStatus.NOT_FOUND)

    def end_headers(self) -> None:
        # A new build is served at once.
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass
