"""The record of what was tried on which kernel, and the guide's table of it."""

import pytest
from study_data import module_of


@pytest.fixture(scope="module")
def tried(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(request.config.rootpath / "tools")
        return module_of(request.config.rootpath / "tools/tried.py")


def test_the_guide_says_what_the_record_says(request, tried):
    guide = (request.config.rootpath / "docs/guide/linux-kernels.md").read_text()
    assert f"\n{tried.markdown(tried.RECORD.read_text())}\n<!-- end of figures -->" in guide


def test_a_job_that_is_tried_again_replaces_its_line(tried):
    record = f"{tried.HEAD}\n6.12.1\tscripts\t8 of 9\t2026-01-02\n6.12.1\tqualify\t12 replays\t2026-01-02\n"
    record = tried.renewed(record, "6.12.1", {"scripts": "9 of 9"}, "2026-02-03")
    record = tried.renewed(record, "6.2.3", {"qualify": "NOT EXACT: 12 replays gave 2 hashes"}, "2026-02-03")
    assert record.splitlines()[1:] == [
        "6.2.3\tqualify\tNOT EXACT: 12 replays gave 2 hashes\t2026-02-03",
        "6.12.1\tqualify\t12 replays\t2026-01-02",
        "6.12.1\tscripts\t9 of 9\t2026-02-03",
    ]
    assert tried.markdown(record).splitlines()[2:] == [
        "| 6.2.3 | NOT EXACT: 12 replays gave 2 hashes | not tried | not tried | 2026-02-03 |",
        "| 6.12.1 | 12 replays | not tried | 9 of 9 | 2026-01-02 |",
    ]
