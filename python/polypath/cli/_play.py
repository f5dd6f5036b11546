"""`polypath play`."""

from __future__ import annotations

from typing import Annotated

import typer

from ._console import err, out

PORT = 8016


def play(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: one that is free.")] = PORT,
    host: Annotated[
        str, typer.Option(help="Address that it listens on; 127.0.0.1 is for this machine alone, 0.0.0.0 for a class in the same network.")
    ] = "127.0.0.1",
    open_: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Serve the playground, on this machine or to a class: a web page with the simulator in it, where you drag
    paths and see what happens at once.
    """
    from polypath.play import other_build, serve

    def ready(address: str) -> None:
        if sentence := other_build():
            err.print(sentence, style="yellow", markup=False, highlight=False, soft_wrap=True)
        out.print(f"playground: {address} (Ctrl+C ends it)", highlight=False, soft_wrap=True)
        if open_:
            typer.launch(address)

    serve(port, host=host, ready=ready)
