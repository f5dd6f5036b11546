"""The examples of docs/concepts run, and the figures in their tables follow from the code."""

import re

import pytest

from polypath.analysis._network import TIMESTAMPS_OPTION
from polypath.study import MODELLED

PAGES = ["bounds.md", "fairness.md", "metrics.md"]


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page, request, monkeypatch):
    monkeypatch.chdir(request.config.rootpath)
    examples = re.findall(r"```python\n(.*?)```", (request.config.rootpath / "docs/concepts" / page).read_text(), re.DOTALL)
    assert examples
    for example in examples:
        exec(compile(example, page, "exec"), {})


def test_the_payloads_in_the_table_are_those_of_the_bounds(request):
    text = (request.config.rootpath / "docs/concepts/bounds.md").read_text()
    row = re.search(r"\| payload \| (\d+) \| (\d+) \| (\d+) \|", text)
    assert row is not None
    plain = 1500 - 40 - TIMESTAMPS_OPTION
    assert [int(cell) for cell in row.groups()] == [plain, *(plain - MODELLED[kernel].dss_bytes for kernel in ("5.4-mptcp", "6.12"))]
    shares = re.search(r"\| payload over frame \| ([\d.]+) % \| ([\d.]+) % \| ([\d.]+) % \|", text)
    assert shares is not None
    assert [float(cell) for cell in shares.groups()] == [round(100 * int(cell) / 1514, 2) for cell in row.groups()]
