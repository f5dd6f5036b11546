"""Prints the rows of docs/reference/results.md for what is declared in Rust: tools/columns.py GROUP...

Groups are counters, rejections, links, series and link_series. Columns that a page words by hand are left out: `--without NAME,NAME`.
"""

from __future__ import annotations

import argparse

from polypath.columns import columns_of


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("groups", nargs="+")
    parser.add_argument("--without", default="", type=lambda text: text.split(","))
    given = parser.parse_args()
    print("| column | unit | meaning |\n|---|---|---|")
    for column in columns_of(*given.groups):
        if column.name not in given.without:
            print(f"| `{column.name}` | {column.unit} | {column.meaning} |")


if __name__ == "__main__":
    main()
