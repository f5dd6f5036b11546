"""`polypath sched`: MPTCP schedulers of one's own, and for other kernels."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated

import typer

from polypath import customcc, linux
from polypath.customcc import Algorithm, CustomCcError
from polypath.study import DEFAULT_KERNEL

from ._console import give, out, steps
from ._work import AsJson, CcPath, Into, NewName, begin, use_custom

app = typer.Typer(
    help="MPTCP schedulers: begin one of your own; see that kernels choose alike; patches for your own kernel.", no_args_is_help=True
)

_Names = Annotated[
    list[str] | None, typer.Argument(help="Schedulers, such as blest; default: all, with --cc-path yours.", show_default=False)
]


@app.command("new")
def new(
    name: NewName,
    into: Into = Path(),
    begin_from: Annotated[str, typer.Option("--from", metavar="NAME", help="The one to copy; see `polypath list schedulers`.")] = "minrtt",
) -> None:
    """Begin a scheduler of your own: NAME.c, which works, for
    `polypath run STUDY --cc-path FOLDER`, also on `--engine linux`.
    """
    begin("sched", name, into, begin_from)


@app.command("check")
def check(
    names: _Names = None,
    kernel: Annotated[str, typer.Option(help="Whose build; `polypath linux list` shows those there are.")] = DEFAULT_KERNEL,
    seed: Annotated[int, typer.Option(min=0, help="Of the random connections.")] = 1,
    cc_path: CcPath = None,
    as_json: AsJson = False,
) -> None:
    """Compile schedulers as a kernel of the linux engine does and as the simulator does, ask both
    on random connections, and compare choices and states.
    """
    checked = []
    for name, calls, difference in linux.check_schedulers(kernel, _chosen(names, cc_path), seed=seed):
        said = difference or f"same choices in {calls} calls"
        out.print(f"{name}: {said}", soft_wrap=True)
        checked.append({"name": name, "same": difference is None, "said": said})
    same = all(each["same"] for each in checked)
    if as_json:
        give({"same": same, "checked": checked})
    if not same:
        raise typer.Exit(1)


@app.command("export")
def export(
    to: Annotated[Path, typer.Option("--out", help="Folder for the patches; made if it is not there.")],
    names: _Names = None,
    kernel: Annotated[
        str, typer.Option(help="7.3, 6.12 or another release that Debian has, or a folder or tarball with a kernel's sources, from 6.6 on.")
    ] = DEFAULT_KERNEL,
    cc_path: CcPath = None,
) -> None:
    """Write patches that build schedulers into a kernel of your own, where they are called pp_NAME."""
    chosen = _chosen(names, cc_path)
    with steps() as say:
        release, patches = linux.export_schedulers(kernel, chosen, to, say=say)
    out.print(
        f"wrote {len(patches)} patches for Linux {release} to {to}; apply them in its tree, say CONFIG_MPTCP_POLYPATH=y, build, then: "
        f"sysctl net.mptcp.scheduler=pp_{chosen[0].name}",
        soft_wrap=True,
    )


def _chosen(names: list[str] | None, cc_path: Path | None) -> list[Algorithm]:
    """The schedulers of these names; without, one's own if there are any, else all."""
    own = use_custom(cc_path, "sched")
    if cc_path is not None and not own:
        raise CustomCcError(
            f"{cc_path} holds no scheduler, only congestion controls; `polypath sched new NAME --into {cc_path}` begins one"
        )
    known = {each.name: each for each in customcc.ours("sched")} | {name: customcc.used()[name] for name in own}
    for name in names or []:
        if name not in known:
            near = difflib.get_close_matches(name, list(known), n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise CustomCcError(f'there is no scheduler "{name}"{hint}; there are {", ".join(sorted(known))}')
    return [known[name] for name in dict.fromkeys(names or own or known)]
