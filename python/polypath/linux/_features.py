"""What differs between releases in what our glue (cc/kernel/glue.c) uses, read from the headers
themselves: vendors carry changes back.
"""

from __future__ import annotations

import re
from pathlib import Path

_V0 = "net/mptcp/mptcp_ctrl.c"


def mptcp(tree: Path, config: str) -> str:
    """Which MPTCP this tree has, as recipes say it: "v1" upstream, "v0" out of tree, "" none."""
    if "CONFIG_MPTCP=y" not in config.splitlines():
        return ""
    return "v0" if is_v0(tree) else "v1"


def is_v0(tree: Path) -> bool:
    """Whether this is a tree of the out-of-tree MPTCP."""
    return (tree / _V0).exists()


def defines(tree: Path, stack: str) -> list[str]:
    """The compiler's options that tell the glue."""
    tcp = (tree / "include/net/tcp.h").read_text(errors="replace")
    names = []
    # The out-of-tree stack has its own coupled algorithms, and other structures: ours see no
    # siblings there.
    if stack == "v1":
        names.append("-DPP_KERNEL_MPTCP")
    if re.search(r"\blast_end_seq;", tcp):
        names.append("-DPP_KERNEL_LAST_END_SEQ")
    if re.search(r"\(\*cong_control\)\(struct sock \*sk, u32 ack", tcp):
        names.append("-DPP_KERNEL_CONTROL_FLAGS")
    if re.search(r"\(\*cwnd_event_tx_start\)\(struct sock \*sk\)", tcp):
        names.append("-DPP_KERNEL_TX_START")
    return names


def algorithms(tree: Path) -> list[str]:
    """The congestion controls that were compiled into this kernel."""
    names = []
    for folder in ("net/ipv4", "net/mptcp"):
        for source in sorted((tree / folder).glob("*.c")):
            if source.with_suffix(".o").exists():
                names += _registered(source.read_text(errors="replace"))
    return sorted(set(names))


def _registered(text: str) -> list[str]:
    names = []
    table = re.compile(r"^(?:static\s+)?struct\s+tcp_congestion_ops\s+(\w+)[^=;{]*=\s*\{(.*?)^\};", re.MULTILINE | re.DOTALL)
    for variable, body in table.findall(text):
        name = re.search(r"\.name\s*=\s*\"([^\"]+)\"", body)
        if name and re.search(rf"tcp_register_congestion_control\(&{variable}\)", text):
            names.append(name.group(1))
        elif name and variable == "tcp_reno":
            # The kernel registers it elsewhere (tcp.c).
            names.append(name.group(1))
    return names
