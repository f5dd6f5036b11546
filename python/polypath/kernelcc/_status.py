"""What the running kernel has, as polypath-cc says it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class _Said(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Share(_Said):
    """What a network namespace has of an algorithm."""

    namespace: str
    sockets: int
    default: bool
    """New sockets there get it."""


class Algorithm(_Said):
    """One that can be loaded."""

    name: str
    kernel_name: str
    coupled: bool


class Loaded(_Said):
    """One of ours that the kernel has."""

    name: str
    how: Literal["loaded", "held", "leaving"]
    """Until it is unloaded; as long as a process holds it; taken out, and kept by the sockets that
    had it.
    """
    users: int
    """Sockets, and namespaces that have it as their default, as the kernel counts them."""
    this_build: bool
    """It is the one that this Polypath would load."""
    allowed: bool
    """Any user may choose it, in any network namespace."""
    sockets: tuple[Share, ...]


class Own(_Said):
    """One of the kernel's own."""

    name: str
    allowed: bool
    sockets: tuple[Share, ...]


class Status(_Said):
    """Everything at one moment."""

    release: str
    algorithms: tuple[Algorithm, ...]
    loaded: tuple[Loaded, ...]
    own: tuple[Own, ...]
    default: str
    """Of this network namespace."""
    mptcp: bool
    """MPTCP is switched on in this network namespace."""
