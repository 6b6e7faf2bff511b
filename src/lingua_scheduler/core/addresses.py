"""Where a client of ours may connect to: a name can be made to lead to what only this machine may ask.

Clouds answer their machines under link-local addresses, with credentials and without asking who it is. So
these are never connected to, whatever names them. Addresses of the own network are right for a hub that
stands there, and wrong for a name of the public internet that somebody has made lead there.
"""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NEVER = tuple(
    ipaddress.ip_network(each)
    for each in (
        "169.254.0.0/16",  # link-local, with the metadata of most clouds
        "fe80::/10",
        "fd00:ec2::254/128",  # metadata of AWS
        "fd20:ce::254/128",  # of Google
        "100.100.100.200/32",  # of Alibaba
        "168.63.129.16/32",  # of Azure
        "192.0.0.192/32",  # of Oracle
        "0.0.0.0/8",  # this machine, by another name
        "::/128",
        "224.0.0.0/4",  # everybody
        "ff00::/8",
        "240.0.0.0/4",
    )
)
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_NAT64 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_OWN_NAMES = (  # what the public internet does not have
    "localhost",
    "local",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "home.arpa",
)


def is_address(host: str) -> bool:
    """Tell an address from a name."""
    return _read(host) is not None


def is_own_name(host: str) -> bool:
    """Tell a name that only a private network has: one word, or below a domain that is reserved for them."""
    name = host.rstrip(".").lower()
    return "." not in name or name.endswith(tuple(f".{each}" for each in _OWN_NAMES))


def is_forbidden(address: str) -> bool:
    """Tell an address that is never to be connected to; what is none at all is one of them."""
    known = _read(address)
    return known is None or any(face in network for face in _faces(known) for network in _NEVER)


def is_private(address: str) -> bool:
    """Tell an address of this machine or of a private network."""
    known = _read(address)
    return known is not None and any(not face.is_global for face in _faces(known))


def _read(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _faces(address: Address) -> list[Address]:
    """Give the address, and those it stands for on the other side of a tunnel or translator."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    inner: list[Address | None] = [address.sixtofour, *(address.teredo or ())]
    hidden = address in _COMPATIBLE and not (address.is_loopback or address.is_unspecified)
    if hidden or any(address in network for network in _NAT64):
        inner.append(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    return [address, *(each for each in inner if each is not None)]
