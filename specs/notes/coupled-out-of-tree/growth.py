"""How fast coupled windows grew in a measured run, beside what the papers and what rounded
arithmetic predict.

    python growth.py SERIES.parquet ID...

SERIES.parquet has tcp_info of every subflow every 100 ms (id, flow, subflow, t, cwnd, ssthresh,
srtt_us, bytes_acked, ca_state, total_retrans); the flow looked at is `c` or `c1`. Counted are
intervals in congestion avoidance without retransmission; an ACK is taken to stand for two segments.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

MSS = 1428
# Windows, smoothed RTTs in units of 1/8 us, and the index of the subflow: increase per ACK,
# segments.
Rule = Callable[[np.ndarray[Any, Any], np.ndarray[Any, Any], int], float]


def lia_paper(w: np.ndarray[Any, Any], rtt: np.ndarray[Any, Any], i: int) -> float:
    """RFC 6356, 4.1."""
    best = int(np.argmax(w / rtt**2))
    return float(1 / max(w[best] * ((w / rtt).sum() / (w[best] / rtt[best])) ** 2, w[i]))


def lia_rounded(w: np.ndarray[Any, Any], rtt: np.ndarray[Any, Any], i: int) -> float:
    """Alpha in whole 1/4096, the best path among whole w 2^32 / srtt_us^2, ties to the initial
    subflow.
    """
    best = int(np.argmax(np.floor(w * 2.0**32 / rtt**2)))
    alpha = max(np.floor(w[best] * 2.0**32 / np.floor(w * 1024 * rtt[best] / rtt).sum() ** 2), 1)
    return float(1 / (max(np.floor(4096 / alpha), w[i]) + 1))


def olia_paper(w: np.ndarray[Any, Any], rtt: np.ndarray[Any, Any], i: int) -> float:
    """CoNEXT 2012, without the exchange term."""
    return float((w[i] / rtt[i] / (w / rtt).sum()) ** 2 / w[i])


def olia_rounded(w: np.ndarray[Any, Any], rtt: np.ndarray[Any, Any], i: int) -> float:
    """The same in whole 2^-10 segments an ACK."""
    return float(np.floor(1024 * olia_paper(w, rtt, i)) / 1023)


def balia_paper(w: np.ndarray[Any, Any], rtt: np.ndarray[Any, Any], i: int) -> float:
    """draft-walid-mptcp-congestion-control-04, 3."""
    x = w / rtt
    alpha = x.max() / x[i]
    return float((1 + alpha) * (4 + alpha) / 10 * (x[i] / x.sum()) ** 2 / w[i])


RULES: dict[str, dict[str, Rule]] = {
    "lia": {"paper": lia_paper, "rounded": lia_rounded},
    "olia": {"paper": olia_paper, "rounded": olia_rounded},
    "balia": {"paper": balia_paper},
}


def growth(run: pd.DataFrame, rules: dict[str, Rule]) -> tuple[float, dict[str, float]]:
    """Segments gained, and predicted by each rule."""
    run = run.assign(k=(run.t * 10).round().astype(int))
    columns = ["cwnd", "ssthresh", "srtt_us", "bytes_acked", "ca_state", "total_retrans"]
    table = {c: run.pivot_table(index="k", columns="subflow", values=c).astype(float) for c in columns}
    gained, predicted = 0.0, dict.fromkeys(rules, 0.0)
    for k in table["cwnd"].index:
        if k < 20 or k - 1 not in table["cwnd"].index:
            continue
        before, now = ({c: t.loc[j].to_numpy() for c, t in table.items()} for j in (k - 1, k))
        w, rtt = (before["cwnd"] + now["cwnd"]) / 2, before["srtt_us"] * 8
        if np.isnan(w).any():
            continue
        quiet = (now["ca_state"] == 0) & (before["ca_state"] == 0) & (now["total_retrans"] == before["total_retrans"])
        for i in np.flatnonzero(quiet & (w >= before["ssthresh"]) & (now["cwnd"] >= before["cwnd"])):
            acks = (now["bytes_acked"][i] - before["bytes_acked"][i]) / MSS / 2
            gained += now["cwnd"][i] - before["cwnd"][i]
            for name, rule in rules.items():
                predicted[name] += acks * rule(w, rtt, int(i))
    return gained, predicted


def main() -> None:
    series = pd.read_parquet(sys.argv[1])
    for name in sys.argv[2:]:
        rules = next(rules for algorithm, rules in RULES.items() if f"_{algorithm}" in name)
        gained, predicted = growth(series[(series.id == name) & series.flow.isin(["c", "c1"])], rules)
        print(name, f"gained {gained:.0f};", ", ".join(f"{rule} {value:.1f}" for rule, value in predicted.items()))


if __name__ == "__main__":
    main()
