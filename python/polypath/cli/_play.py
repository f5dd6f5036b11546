"""`polypath play`."""

from __future__ import annotations

from typing import Annotated

import typer

from ._console import out

PORT = 8016


def play(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0: one that is free.")] = PORT,
    open_: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Serve the playground on this machine: a web page with the simulator in it, where you drag
    paths and see what happens at once.
    """
    from polypath.play import serve

    def ready(address: str) -> None:
        out.print(f"playground: {address} (Ctrl+C ends it)", highlight=False, soft_wrap=True)
        if open_:
            typer.launch(address)

    serve(port, ready=ready)
