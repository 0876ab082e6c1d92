"""Keys are sent over TLS, or to this machine."""

from __future__ import annotations

import ipaddress
import os
import urllib.parse
from typing import Optional


def allowed(insecure: Optional[bool], variable: str) -> bool:
    """What the caller says, or else whether the variable of the environment is `1`."""
    return os.environ.get(variable) == "1" if insecure is None else insecure


def is_loopback(host: str) -> bool:
    """Whether the host is this machine, by its address or as `localhost`. Nothing is looked up."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_key_url(url: str, insecure: bool) -> None:
    """Raises `ValueError` where a key would go to `url` in plaintext beyond this machine."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https":
        check_key_host(parts.hostname or "", insecure)


def check_key_host(host: str, insecure: bool) -> None:
    """The same for a host that is called without TLS."""
    if insecure or is_loopback(host):
        return
    raise ValueError(
        f"`{host}` is beyond this machine: without TLS everyone on the way could read the key; "
        "use https, or say that the network is trusted (TOOLKEEP_INSECURE=1)"
    )
