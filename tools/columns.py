"""Prints the rows of docs/reference/results.md for what is declared in Rust: tools/columns.py GROUP...

Groups are counters, rejections, links, series and link_series. `applications` prints the metrics of each kind of application for
docs/concepts/metrics.md. Columns that a page words by hand are left out: `--without NAME,NAME`.
"""

from __future__ import annotations

import argparse

from polypath.analysis import APPLICATIONS
from polypath.columns import columns_of


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("groups", nargs="+")
    parser.add_argument("--without", default="", type=lambda text: text.split(","))
    given = parser.parse_args()
    if given.groups == ["applications"]:
        applications()
        return
    print("| column | unit | meaning |\n|---|---|---|")
    for column in columns_of(*given.groups):
        if column.name not in given.without:
            print(f"| `{column.name}` | {column.unit} | {column.meaning} |")


def applications() -> None:
    """What stands in tables of each kind of application."""
    print("| application | metric | column | unit | meaning | of a run | beside it |\n|---|---|---|---|---|---|---|")
    for application in APPLICATIONS:
        for number, metric in enumerate(application.metrics):
            name = f"{application.name}: {application.what}" if number == 0 else ""
            best = f"`{metric.best}`" if metric.best else ""
            print(f"| {name} | {metric.head} | `{metric.column}` | {metric.unit} | {metric.meaning} | {metric.of_a_run} | {best} |")


if __name__ == "__main__":
    main()
