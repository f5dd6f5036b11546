"""IP addresses as a study writes them."""

from __future__ import annotations

import ipaddress
from typing import Annotated

from pydantic import AfterValidator


def _checked_address(value: str) -> str:
    # Papers and `ip address add` write "10.0.0.1/24"; routes follow the links, so the length of the
    # prefix is not needed.
    try:
        return str(ipaddress.ip_interface(value).ip)
    except ValueError:
        raise ValueError(f'"{value}" is no IP address; write one like "10.0.0.1"') from None


Address = Annotated[str, AfterValidator(_checked_address)]
