"""The open connections: how many there may be in all and of one address, and their clock.

A connection that waits for its client can be closed at any time; one that waits for the server, or
whose answer is being read, cannot. If there are too many, the one that has made the server wait
longest is closed in favour of the new one. A new one is refused only if none is waiting. Headers
cost a client nothing, but a body does: uploads are closed last, unless nearly all are uploads.
"""

from __future__ import annotations

import ipaddress
import logging
from collections import Counter
from typing import Protocol

from whereish.service.limits import FIXED, Limits

_log = logging.getLogger("whereish.http")
# The share of the connections up to which uploads are closed last.
_UPLOADS = 0.75


def open_files() -> int | None:
    """Return how many files and connections this process may open; None if there is no limit."""
    try:
        import resource
    except ImportError:
        return None
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if most == resource.RLIM_INFINITY else most


class Connection(Protocol):
    """What this module needs to know of a connection."""

    def is_waiting(self) -> bool:
        """Return whether it waits for its client, and not the client for the server."""

    def is_uploading(self) -> bool:
        """Return whether its client sends a body, after complete headers."""

    def check(self, now: float) -> None:
        """Close it if the time of its state is over."""

    def drop(self) -> None:
        """Close it at once, even if bytes are left to be sent."""


class Connections:
    """All open connections of a server."""

    def __init__(self, limits: Limits, descriptors: int | None = None) -> None:
        most = FIXED.connections if limits.connections is None else limits.connections
        # The other half is for databases, workers, files and connections not yet counted.
        self.most = most if descriptors is None else max(1, min(most, descriptors // 2))
        self._per_address = limits.connections_per_address
        # Each with whether it is an upload, in the order of their last activity.
        self._all: dict[Connection, bool] = {}
        self._of: dict[str, dict[Connection, bool]] = {}
        self._network: dict[Connection, str] = {}
        self.closed = Counter[str]()

    def __len__(self) -> int:
        return len(self._network)

    def admit(self, connection: Connection, address: str) -> bool:
        """Add a connection, and close another one if there are too many; False if refused."""
        network, here = _network(address)
        if len(self._of.get(network, ())) >= self._most_of_one(here):
            if not self._make_room(self._of[network]):
                self.closed["refused"] += 1
                return False
        elif len(self) >= self.most:
            largest = max(self._of.values(), key=len)
            if not self._make_room(largest, self._all):
                self.closed["refused"] += 1
                return False
        self._network[connection] = network
        self._put(connection, network)
        return True

    def changed(self, connection: Connection) -> None:
        """Note that a connection has entered another state, or sent more of a body."""
        network = self._network.get(connection)
        if network is not None:
            self._put(connection, network, upload=connection.is_uploading())

    def _put(self, connection: Connection, network: str, *, upload: bool = False) -> None:
        for group in (self._all, self._of.setdefault(network, {})):
            group.pop(connection, None)
            group[connection] = upload

    def remove(self, connection: Connection) -> None:
        network = self._network.pop(connection, None)
        if network is not None:
            del self._all[connection], self._of[network][connection]
            if not self._of[network]:
                del self._of[network]

    def check(self, now: float) -> None:
        """Close every connection whose time is over."""
        for connection in list(self._network):
            try:
                connection.check(now)
            except Exception as wrong:
                _log.error("a connection could not be checked: %s", type(wrong).__name__)
                connection.drop()

    def _most_of_one(self, here: bool) -> int:
        if self._per_address is not None:
            return min(self._per_address, self.most)
        return self.most if here else min(FIXED.connections_per_address, self.most)

    def _make_room(self, *groups: dict[Connection, bool]) -> bool:
        """Close the connection that has made the server wait longest; return whether there was one.

        Groups are searched in order, and uploads only if there is no other connection. If uploads
        are more than three quarters of all, they are searched too: otherwise clients that hold
        them would leave only a quarter, in which new connections close each other.
        """
        crowded = sum(groups[-1].values()) > _UPLOADS * len(groups[-1])
        for uploads in [(False, True)] if crowded else [(False,), (True,)]:
            for group in groups:
                for connection, upload in group.items():
                    if upload in uploads and connection.is_waiting():
                        self.remove(connection)
                        self.closed["for another"] += 1
                        connection.drop()
                        return True
        return False


def _network(address: str) -> tuple[str, bool]:
    """Return the network that counts as one client, and whether it is this machine.

    It is one IPv4 address, or a /64 network of IPv6, which one client usually has alone.

    >>> _network("192.0.2.7"), _network("2001:db8::1:2:3:4"), _network("127.0.0.9")
    (('192.0.2.7', False), ('2001:db8::/64', False), ('127.0.0.9', True))
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address, True  # not an IP address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is None:
            network = ipaddress.ip_network((found, 64), strict=False)
            return str(network), found.is_loopback
        found = found.ipv4_mapped
    return str(found), found.is_loopback
