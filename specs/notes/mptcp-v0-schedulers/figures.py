"""Schedulers of the out-of-tree kernel over two paths of 100 Mbit/s: measured, simulated, and
simulated with other delays of the long path.
"""

from dataclasses import replace
from pathlib import Path

from figure_tables import ROOT, table

from polypath.validate import Setup, read
from polypath.validate._run import scenario_key, simulate

TABLE = ROOT / "tests" / "data" / "reference" / "mptcp-v0.csv"
AROUND_MS = (-4, -3, -2, -1, 0, 1, 2, 3, 4)


def moved(setup: Setup, ms: float) -> Setup:
    """The same with the long path's delay changed by some milliseconds."""
    first, *others = setup.paths
    return replace(setup, paths=(replace(first, fwd_ms=first.fwd_ms + ms), *others))


def main() -> None:
    cells = {cell.id: cell for cell in read(Path(TABLE)) if cell.group == "s"}
    tried = {name: [moved(cell.setups[0], ms) for ms in (AROUND_MS if "delay100" in name else (0,))] for name, cell in cells.items()}
    results = simulate(setup for setups in tried.values() for setup in setups)

    def goodputs(name: str) -> list[float]:
        outcomes = [results[scenario_key(setup)] for setup in tried[name]]
        return [outcome[0]["flows"][0]["goodput_receiver_bps"] / 1e6 for outcome in outcomes if not isinstance(outcome, str)]

    rows = []
    for name in cells:
        scheduler, delay = name.removeprefix("v0_s_").rsplit("_", 1)
        if delay != "delay10":
            continue
        far = name.replace("delay10", "delay100")
        near, others = goodputs(name)[0], goodputs(far)
        rows.append(
            [
                f"`{'minrtt' if scheduler == 'default' else scheduler}`",
                f"{cells[name].mbps:.1f}",
                f"{near:.1f}",
                f"{cells[far].mbps:.1f}",
                f"{others[AROUND_MS.index(0)]:.1f}",
                f"{min(others):.1f} to {max(others):.1f}",
            ]
        )
    print(table(["scheduler", "10 ms more: kernel", "here", "100 ms more: kernel", "here", "here with 96 to 104 ms"], rows))


main()
