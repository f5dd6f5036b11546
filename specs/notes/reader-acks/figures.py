"""Goodput of two flows beside each other, on Linux (recorded) and here: means of eight starts."""

from figure_tables import recorded, simulated, table

FOLDER = "specs/notes/reader-acks"
NAMES = {"mptcp": "MPTCP, one subflow, and TCP beside it", "tcp": "TCP and TCP beside it"}


def main() -> None:
    means = simulated(FOLDER).runs.groupby(["transport", "flow"])["goodput_receiver_mbps"].mean()
    rows = [
        [NAMES[row.transport], f"{row.m_mbps} and {row.t_mbps}", f"{means[row.transport, 'm']:.1f} and {means[row.transport, 't']:.1f}"]
        for row in recorded(f"{FOLDER}/linux-6.12.csv").itertuples()
    ]
    print(table(["Mbit/s", "Linux 6.12", "here"], rows))


main()
