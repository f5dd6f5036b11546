"""Small studies as text, for tests to change."""

import importlib.util
import sys

from polypath import Study


def one_link(name, link="{rate: 10mbit, queue: 50packets, delay: 5ms}", flow='transport: tcp, cc: "${cc}"', **more):
    """A study of a flow from `a` to `b` over one link, and more of its fields as they are written."""
    topology = f"topology:\n  nodes: {{a: , b: }}\n  links:\n    l: {{ends: [a, b], both: {link}}}\n"
    flows = f"flows:\n  f: {{client: a, server: b, {flow}}}\n"
    return f"name: {name}\n{topology}{flows}" + "".join(f"{field}: {value}\n" for field, value in more.items())


def written(folder, text):
    """The study, written into this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.yaml").write_text(text)
    return Study.load(folder)


def module_of(file):
    spec = importlib.util.spec_from_file_location(f"{file.parent.name}_{file.stem}".replace("-", "_"), file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


STUDY = """\
name: small
question: Does it work?
topology:
  nodes:
    client:
    middle: {router: true}
    server:
  links:
    first: {ends: [client, middle], both: {rate: 50mbit, queue: 100packets, delay: 5ms}}
    second: {ends: [client, middle], both: {rate: "${rate}", delay: 10ms}}
    last:
      ends: [middle, {node: server, address: 10.9.0.2/24}]
      both: {rate: 100mbit, delay: 2ms}
flows:
  bulk: {client: client, server: server, cc: "${cc}"}
duration: 20s
matrix:
  cc: [lia, olia]
  rate: [20mbit, 10mbit]
seeds: 2
"""

LOSSY_LINK = """\
name: many
topology:
  nodes: {client: , server: }
  links:
    only: {ends: [client, server], both: {rate: 10mbit, delay: 10ms, queue: 50packets, loss: "${loss}"}}
flows: {bulk: {client: client, server: server, cc: "${cc}"}}
duration: 3s
baselines: null
"""
"""A study that lacks its matrix, of `cc` and `loss`."""


def changed(*pairs):
    """The study with each first text of a pair replaced by the second."""
    text = STUDY
    for old, new in pairs:
        assert old in text, f"{old!r} does not stand in the study"
        text = text.replace(old, new)
    return text
