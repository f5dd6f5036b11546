"""packetdrill as a person has built it, and a script of it for both of our endpoints."""

import os
from pathlib import Path

from requirement import lacking

from polypath import selftests

# Of connect() and close(), as Google's own scripts are written.
HANDSHAKE = """\
`sysctl -q net.ipv4.tcp_timestamps=0 net.ipv4.tcp_ecn=0`
   0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
  +0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
  +0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)
  +0 > S 0:0(0) <mss 1460,nop,nop,sackOK,nop,wscale 7>
+.01 < S. 0:0(0) ack 1 win 65535 <mss 1460>
  +0 > . 1:1(0) ack 1
  +0 %{ assert tcpi_snd_mss == 1460 }%
  +0 close(3) = 0
  +0 > F. 1:1(0) ack 1
"""


def player():
    """The program that PACKETDRILL names."""
    named = os.environ.get("PACKETDRILL")
    try:
        return selftests.player_of(Path(named) if named else None)
    except selftests.SelftestError as error:
        lacking("packetdrill", str(error))
