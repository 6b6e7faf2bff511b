"""No name and no spelling leads to what only this machine may ask."""

import pytest

from lingua_scheduler.core.addresses import is_address, is_forbidden, is_own_name, is_private


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.0.1",
        "fe80::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "fd20:ce::254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "0.0.0.0",
        "0.1.2.3",
        "::",
        "224.0.0.1",
        "255.255.255.255",
        "ff02::1",
        "::ffff:169.254.169.254",  # the same in other words
        "::169.254.169.254",
        "2002:a9fe:a9fe::1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe",
        "2001:0:a9fe:a9fe::1",
        "not an address",
        "",
    ],
)
def test_some_addresses_are_never_connected_to(address: str) -> None:
    assert is_forbidden(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "::1",
        "fd12:3456::1",
        "::ffff:10.0.0.1",
        "2002:a00:1::1",
        "64:ff9b::a00:1",
    ],
)
def test_addresses_of_the_own_network_are_private_and_may_be_meant(address: str) -> None:
    assert is_private(address)
    assert not is_forbidden(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public_addresses_are_neither(address: str) -> None:
    assert not is_private(address)
    assert not is_forbidden(address)


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("hub", True),
        ("localhost", True),
        ("hub.local", True),
        ("hub.lingua.svc.cluster.local", True),
        ("HUB.Internal.", True),
        ("hub.home.arpa", True),
        ("hub.example.com", False),
        ("local.example.com", False),
        ("hub.notlocal", False),
    ],
)
def test_names_that_only_a_private_network_has_are_told_from_public_ones(host, own) -> None:
    assert is_own_name(host) is own


def test_an_address_is_told_from_a_name() -> None:
    assert is_address("10.0.0.1")
    assert is_address("::1")
    assert not is_address("10.0.0")
    assert not is_address("hub")
