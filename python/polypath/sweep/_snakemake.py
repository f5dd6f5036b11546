"""A study as a workflow of Snakemake's."""

from __future__ import annotations

import json


def snakefile(command: str, folder: str, parts: int) -> str:
    """The text of a Snakefile: `command` runs the study, whose results go to `folder`, in so many parts."""
    return f"""# Runs a study in parts, then makes its tables and its report: snakemake --cores 4
RUN = {json.dumps(command)}
FOLDER = {json.dumps(folder)}
PARTS = {parts}


rule all:
    input: f"{{FOLDER}}/report.html"


# What is finished is never run again, so a part that failed goes on where it was.
rule part:
    output: touch(f"{{FOLDER}}/parts/{{{{part}}}}-of-{{PARTS}}")
    threads: 1
    shell: "{{RUN}} --workers {{threads}} --part {{wildcards.part}}/{{PARTS}}"


rule report:
    input: expand(f"{{FOLDER}}/parts/{{{{part}}}}-of-{{PARTS}}", part=range(1, PARTS + 1))
    output: f"{{FOLDER}}/report.html"
    shell: "{{RUN}}"
"""
