"""Serves the page on this machine: to this machine alone, or to a class."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from polypath import _native

from ._errors import PlayError

# Written by `make playground`.
SITE = Path(__file__).parent / "site"
HOST = "127.0.0.1"
# Of the site: the version of the simulator in it.
_VERSION = "version.txt"


def other_build(site: Path = SITE) -> str:
    """What to do where the page has another simulator than this installation; else nothing."""
    try:
        built = (site / _VERSION).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        built = "of no known version"
    if built == _native.version():
        return ""
    return (
        f"the page has another simulator ({built}) than `polypath run` ({_native.version()}), so their figures differ: "
        "run `make playground` in Polypath's folder, and load the page again"
    )


def serve(port: int, *, host: str = HOST, site: Path = SITE, ready: Callable[[str], None]) -> None:
    """Serves until it is interrupted; `ready` hears the address. With port 0 the system chooses
    one. `host` is an address of this machine; 0.0.0.0 (or ::) is all of them.
    """
    if not (site / "polypath.wasm").is_file():
        raise PlayError("the playground is not built: run `make playground` in Polypath's folder")
    try:
        server = _server(host)((host, port), partial(_Handler, directory=str(site)))
    except OSError as error:
        raise _mistake(error, host, port) from error
    with server:
        shown = _shown(host)
        ready(f"http://{f'[{shown}]' if ':' in shown else shown}:{server.server_port}/")
        server.serve_forever()


def _server(host: str) -> type[ThreadingHTTPServer]:
    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        to_itself = host in (HOST, "localhost", "::1")

    return Server


def _mistake(error: OSError, host: str, port: int) -> Exception:
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return PlayError(f"{host} is no address of this machine: name one that is, or --host 0.0.0.0 for all of them")
    if error.errno not in (errno.EADDRINUSE, errno.EACCES):
        return error
    why = "is taken by another program" if error.errno == errno.EADDRINUSE else "is for root alone"
    return PlayError(f"port {port} {why}: name another one, like `polypath play --port {port + 1 if port < 65535 else 8016}`")


def _shown(host: str) -> str:
    """An address by which others reach it."""
    if host not in ("0.0.0.0", "::"):
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
        try:
            # The address that this machine would send from; a datagram socket sends nothing to
            # connect. 192.0.2.1 is nobody's (RFC 5737).
            route.connect(("192.0.2.1", 9))
            return str(route.getsockname()[0])
        except OSError:
            return socket.gethostname()


# Whatever the machine's own table says: a browser runs no module of another type.
_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".mjs": "text/javascript",
    ".txt": "text/plain",
    ".wasm": "application/wasm",
}


# The page runs its own scripts and the simulator, draws and saves what it drew, and asks no other
# server.
_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class _Handler(SimpleHTTPRequestHandler):
    def guess_type(self, path: str | os.PathLike[str]) -> str:
        return _TYPES.get(Path(path).suffix, "application/octet-stream")

    def send_head(self) -> Any:
        # A page of elsewhere whose name is made to mean this machine asks under that name.
        if not self._is_meant():
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return None
        if not self._is_of_the_site():
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return super().send_head()

    def _is_meant(self) -> bool:
        """Whether the page was asked for by a name that is surely this machine's. An address is,
        since a name of elsewhere is never one.
        """
        try:
            asked = urlsplit(f"//{self.headers.get('Host', '')}")
            name, port = asked.hostname or "", asked.port
        except ValueError:
            return False
        if port not in (None, self.connection.getsockname()[1]):
            return False
        if getattr(self.server, "to_itself", True):
            return name in (HOST, "localhost", "::1")
        own = {"localhost", socket.gethostname().lower(), f"{socket.gethostname().lower()}.local"}
        return name in own or _is_address(name)

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
        self.send_header("X-Polypath-Version", _native.version())
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass
