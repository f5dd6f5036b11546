"""The window at which cubic's slow start ends, on Linux (recorded) and here."""

from figure_tables import recorded, simulated, table

FOLDER = "specs/notes/hystart-rounds"
UNSET = 2**30


def main() -> None:
    series = simulated(FOLDER).series
    ends = {}
    for (delay, queue), own in series.groupby(["d", "q"]):
        own = own.sort_values("time_s")
        unset = own["ssthresh"].isna() | (own["ssthresh"] >= UNSET)
        # HyStart sets the threshold to the window; a loss sets it lower than the last window
        # before.
        ends[2 * int(delay.removesuffix("ms")), queue] = int(max(own[unset]["cwnd"].max(), own[~unset]["ssthresh"].iloc[0]))
    linux = {(int(row.rtt_ms), row.queue): row.cwnd for row in recorded(f"{FOLDER}/linux-6.12.csv").itertuples()}
    rows = [[rtt, queue.removesuffix("packets"), cwnd, ends[rtt, queue]] for (rtt, queue), cwnd in linux.items()]
    print(table(["RTT, ms", "queue, packets", "Linux 6.12", "here"], rows, left=2))


main()
