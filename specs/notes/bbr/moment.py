"""What BBR of kernels 6.1 and 6.12 gets over two paths of which the first has 100 ms more delay, by
the moment at which it begins.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from polypath import Study, run


def study(start: str) -> Study:
    links: dict[str, Any] = {
        "a1": {"ends": ["c", "r1"], "both": {"delay": "101ms"}},
        "a2": {"ends": ["c", "r2"], "both": {"delay": "1ms"}},
        "b1": {"ends": ["r1", "s"], "forward": {"rate": "100mbit", "queue": "167packets"}},
        "b2": {"ends": ["r2", "s"], "forward": {"rate": "100mbit", "queue": "167packets"}},
    }
    nodes: dict[str, Any] = {"c": None, "r1": {"router": True}, "r2": {"router": True}, "s": None}
    flow = {"client": "c", "server": "s", "transport": "mptcp", "cc": "bbr@linux", "start": start}
    return Study.model_validate(
        {"name": "d", "topology": {"nodes": nodes, "links": links}, "flows": {"f": flow}, "duration": "30s", "baselines": None}
    )


with TemporaryDirectory() as folder:
    for kernel in ("6.1", "6.12"):
        for start in ("0ms", "1ms", "1.3ms", "2ms", "3ms"):
            runs = run(study(start), engine="linux", kernel=kernel, out=Path(folder) / f"{kernel}-{start}").runs
            print(kernel, start, runs["goodput_receiver_mbps"].round(1).tolist())
