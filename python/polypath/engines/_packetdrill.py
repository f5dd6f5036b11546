"""packetdrill on the simulator's endpoint: a person's packetdrill loads the shared object that is the
endpoint, parses a script, times it and judges.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from polypath import programs

from . import _machine
from ._errors import NotBuiltError

ENDPOINT = _machine.PROGRAMS / "libpolypath_packetdrill.so"
# Real seconds after which a script hangs; one takes some tenths, nearly all for its `defaults.sh`.
PATIENCE_S = 60.0
# Where the shared object and the stand-ins find what commands have set, and tell what they refuse
# (crates/packetdrill/src/preload.rs).
_FOLDER = "POLYPATH_PACKETDRILL"
# What stands in for the programs by which scripts set up a kernel: this machine's stays as it is.
_STAND_INS = {
    "sysctl": """\
for word; do
    case $word in
    -[eqwn]) ;;
    *=*)
        file=$POLYPATH_PACKETDRILL/proc/sys/$(echo "${word%%=*}" | tr . /)
        mkdir -p "${file%/*}" && echo "${word#*=}" >"$file" || exit 1
        ;;
    *) refuse ;;
    esac
done
""",
    "ip": """\
case "$*" in
'tcp_metrics flush all') echo >>"$POLYPATH_PACKETDRILL/flushes" ;;
'mptcp '* | 'addr add '*) echo "$*" >>"$POLYPATH_PACKETDRILL/ip" ;;
*) refuse ;;
esac
""",
    "tc": """\
case "$*" in
'qdisc add dev tun0 root pfifo' | 'qdisc replace dev tun0 root pfifo') ;;
*) refuse ;;
esac
""",
    "nstat": "refuse\n",
    # Here each segment leaves by itself.
    "ethtool": """\
case "$*" in
'-K tun0 tso off gso off' | '-K tun0 gso off tso off') ;;
*) refuse ;;
esac
""",
}
_HEAD = """\
#!/bin/sh
all="${0##*/} $*"
refuse() { echo "the command $all" >>"$POLYPATH_PACKETDRILL/refused"; }
"""


def run_packetdrill(player: Path, script: Path, arguments: Sequence[str]) -> tuple[int, str, list[str]]:
    """Plays a script where it lies; returns the exit status, what was printed, and what the endpoint
    or a stand-in refused.
    """
    if not ENDPOINT.is_file():
        raise NotBuiltError(programs.not_built(ENDPOINT.name))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bin").mkdir()
        for program, text in _STAND_INS.items():
            file = folder / "bin" / program
            file.write_text(_HEAD + text, encoding="ascii")
            file.chmod(0o755)
        words = [str(player.resolve()), f"--so_filename={ENDPOINT.resolve()}", f"--so_flags={folder}", *arguments, script.name]
        path = f"{folder / 'bin'}:{os.environ.get('PATH', os.defpath)}"
        env = {**os.environ, "PATH": path, "LD_PRELOAD": str(ENDPOINT.resolve()), _FOLDER: name}
        try:
            done = subprocess.run(
                words, cwd=script.parent, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False
            )
            status, said = done.returncode, done.stdout
        except subprocess.TimeoutExpired as late:
            status, said = 124, (late.stdout or b"") + f"\nit was not over after {PATIENCE_S:.0f} s".encode()
        refusals = folder / "refused"
        refused = list(dict.fromkeys(refusals.read_text(encoding="utf-8").splitlines())) if refusals.is_file() else []
    return status, said.decode(errors="replace"), refused
