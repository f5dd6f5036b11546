"""Counts the probes that the host itself refuses, on kernels of the linux engine:
`python refused.py 6.12 6.12-cured`.

Each is one of the segments that the kernel says it sent (`data_segs_out`) and that the capture at
the client does not have.
"""

import sys

from measure import captured, sizes_of

from polypath.engines import find
from polypath.validate._ids import parse
from polypath.validate._scenario import for_kernel

CELLS = ("e_mptcp_9000+9000_probe2", "e_mptcp_1500+1500_probe2", "e_mptcp_9000+1500_probe2_icmpok", "e_tcp_1500mid_probe2_icmpok")
HEADS = ("set-up", "kernel", "Mbit/s", "subflow", "segments", "most bytes of data in one", "probes refused")


def rows(name: str, kernel: str) -> list[list[str]]:
    """A row a subflow."""
    output = find("linux").run(for_kernel(captured(parse(name), kernel), kernel))
    (flow,) = output.outcome["flows"]
    captures = [file.read() for file in output.captures.values()]
    found = []
    for number, subflow in enumerate(flow["subflows"], 1):
        source = subflow["source"].split(":")[0]
        sizes = next((sizes for sizes in (sizes_of(data, source) for data in captures) if sizes), {})
        sent = sum(sizes.values())
        refused = subflow["data_segments_sent"] - sent
        goodput = f"{flow['goodput_receiver_bps'] / 1e6:.2f}"
        found.append([name, kernel, goodput, str(number), str(sent), str(max(sizes, default=0)), str(refused)])
    return found


def main(kernels: list[str]) -> None:
    print("| " + " | ".join(HEADS) + " |")
    print("|---" * len(HEADS) + "|")
    for name in CELLS:
        for kernel in kernels:
            for row in rows(name, kernel):
                print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
