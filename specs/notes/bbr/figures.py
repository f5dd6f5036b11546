"""C-MPBBR on live traffic, on Linux (recorded) and here."""

from figure_tables import recorded, simulated, span, table

NAMES = {
    "apart": "two paths of 50 and 30 Mbit/s",
    "equal": "two paths of 40 Mbit/s each",
    "shared": "two subflows and a TCP with {rival} through 20 Mbit/s: MPTCP, TCP",
}


def main() -> None:
    runs = simulated("specs/notes/bbr/cmpbbr.yaml").runs
    rows = []
    for line in recorded("specs/notes/bbr/cmpbbr-linux-6.12.csv").itertuples():
        own = runs[(runs["experiment"] == line.experiment) & (runs["cc"] == line.cc)]
        if line.rival:
            own = own[own["rival"] == line.rival]
        flows = [span(part["goodput_receiver_mbps"].tolist(), 1) for _, part in own.groupby("flow")]
        rows.append([NAMES[line.experiment].format(rival=line.rival.split("@")[0]), line.cc.split("@")[0], line.linux, ", ".join(flows)])
    print(table(["", "", "Linux 6.12", "here"], rows, left=2))


main()
