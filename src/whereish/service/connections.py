"""The open connections: how many there may be, in all and of one address, and their one clock.

A connection that waits for its client can be closed at any time; one whose answer is being worked
out or taken cannot. So when there is no room, the one that has kept the server waiting longest is
closed in favour of the new one, and a new one is refused only if none is waiting.
"""

from __future__ import annotations

import ipaddress
import logging
from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import Protocol

from whereish.service.settings import MOST_CONNECTIONS, MOST_PER_ADDRESS, Limits

_log = logging.getLogger("whereish.http")


def open_files() -> int | None:
    """Return how many files and connections this process may have open; None if nobody says."""
    try:
        import resource
    except ImportError:
        return None
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if most == resource.RLIM_INFINITY else most


class Connection(Protocol):
    """What has to be known of a connection."""

    def is_waiting(self) -> bool:
        """Tell whether it waits for its client, and not the client for the server."""

    def check(self, now: float) -> None:
        """Close it if its time is up."""

    def drop(self) -> None:
        """Close it at once, whatever is left to be sent."""


class Connections:
    """All open connections of a server."""

    def __init__(self, limits: Limits, descriptors: int | None = None) -> None:
        most = MOST_CONNECTIONS if limits.connections is None else limits.connections
        # The other half is for databases, workers, files, and what is accepted before it is looked
        # at.
        self.most = most if descriptors is None else max(1, min(most, descriptors // 2))
        self._per_address = limits.connections_per_address
        # Both in the order in which they changed what they wait for: the longest wait comes first.
        self._of: dict[str, OrderedDict[Connection, None]] = {}
        self._network: OrderedDict[Connection, str] = OrderedDict()
        self.closed = Counter[str]()

    def __len__(self) -> int:
        return len(self._network)

    def admit(self, connection: Connection, address: str) -> bool:
        """Count a new connection, and close another one for it if need be; False if it may not."""
        network, here = _network(address)
        if len(self._of.get(network, ())) >= self._most_of_one(here):
            if not self._make_room(self._of[network]):
                self.closed["refused"] += 1
                return False
        elif len(self) >= self.most:
            largest = max(self._of.values(), key=len)
            if not self._make_room(largest) and not self._make_room(self._network):
                self.closed["refused"] += 1
                return False
        self._of.setdefault(network, OrderedDict())[connection] = None
        self._network[connection] = network
        return True

    def changed(self, connection: Connection) -> None:
        """Note that a connection waits for something else from now on."""
        network = self._network.get(connection)
        if network is not None:
            self._network.move_to_end(connection)
            self._of[network].move_to_end(connection)

    def remove(self, connection: Connection) -> None:
        """Stop counting a connection."""
        network = self._network.pop(connection, None)
        if network is not None:
            del self._of[network][connection]
            if not self._of[network]:
                del self._of[network]

    def check(self, now: float) -> None:
        """Close whatever has had its time."""
        for connection in list(self._network):
            try:
                connection.check(now)
            except Exception as wrong:
                _log.error("a connection could not be looked after: %s", type(wrong).__name__)
                connection.drop()

    def _most_of_one(self, here: bool) -> int:
        if self._per_address is not None:
            return min(self._per_address, self.most)
        return self.most if here else min(MOST_PER_ADDRESS, self.most)

    def _make_room(self, among: Iterable[Connection]) -> bool:
        """Close the one that has kept the server waiting longest; tell whether there was one."""
        longest = next((one for one in among if one.is_waiting()), None)
        if longest is None:
            return False
        self.remove(longest)
        self.closed["for another"] += 1
        longest.drop()
        return True


def _network(address: str) -> tuple[str, bool]:
    """Return what counts as one client, and whether it is this machine.

    It is an address, or with IPv6 the /64 network that one client usually has for itself.

    >>> _network("192.0.2.7"), _network("2001:db8::1:2:3:4"), _network("127.0.0.9")
    (('192.0.2.7', False), ('2001:db8::/64', False), ('127.0.0.9', True))
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address, True  # no address of a network
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is None:
            network = ipaddress.ip_network((found, 64), strict=False)
            return str(network), found.is_loopback
        found = found.ipv4_mapped
    return str(found), found.is_loopback
