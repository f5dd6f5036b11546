"""A small study as text, for tests to change."""

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
