"""Two connections of a host over one route whose MTU ICMP tells: `python route.py 6.12`, or `sim`
for the simulator.

For each pair of starting times: the MSS that each SYN of the client announces, segments of each
connection that are too long, and ICMP messages. Needs tshark.
"""

import copy
import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from polypath import _native
from polypath.engines import find
from polypath.validate._ids import parse
from polypath.validate._scenario import build, for_kernel


def tshark(file: Path, keep: str, field: str) -> list[str]:
    words = ["tshark", "-n", "-r", str(file), "-Y", keep, "-T", "fields", "-e", field]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()


def main(kernel: str) -> None:
    setup = replace(parse("e_tcp_1500mid_probe0_icmpok"), duration_s=2, window_s=(0, 2), kernel="6.12" if kernel == "sim" else kernel)
    scenario = build(setup)
    first = scenario["flows"][0]
    link = next(link["name"] for link in scenario["links"] if link["a"]["node"] == "c")
    scenario["captures"] = [{"node": "c", "link": link, "snaplen": 128, "packets": 100_000}]
    scenario["duration_ns"] = 6 * 10**9
    for starts in ((0, 3), (0, 0)):
        scenario["flows"] = []
        for number, start in enumerate(starts):
            scenario["flows"].append({**copy.deepcopy(first), "name": f"f{number}", "start_ns": start * 10**9})
        if kernel == "sim":
            (data,) = _native.simulate(json.dumps(scenario))[3].values()
        else:
            (stream,) = find("linux").run(for_kernel(scenario, kernel)).captures.values()
            data = stream.read()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "client.pcapng"
            file.write_bytes(data)
            long = tshark(file, "tcp.len > 1448 && !icmp", "tcp.stream")
            announced = tshark(file, "tcp.flags.syn == 1 && tcp.flags.ack == 0", "tcp.options.mss_val")
            counts = [long.count(str(number)) for number in (0, 1)]
            print(f"starts {starts} s: MSS {announced}, too long {counts}, ICMP {len(tshark(file, 'icmp', 'icmp.type'))}")


if __name__ == "__main__":
    main(*sys.argv[1:])
