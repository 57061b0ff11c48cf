"""Rate limits: how many requests each key may send."""

from __future__ import annotations

import threading
import time

from whereish.service.http.errors import ApiError
from whereish.service.limits import Limits


class TokenBucket:
    """Allows `most` requests at once for each client, and then `per_second`."""

    def __init__(self, most: float, per_second: float) -> None:
        self._most, self._rate = most, per_second
        self._left: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, client: str) -> float:
        """Take one token; return 0, or the seconds until there is one."""
        with self._lock:
            now = time.monotonic()
            left, since = self._left.get(client, (self._most, now))
            left = min(self._most, left + (now - since) * self._rate)
            self._left[client] = (left - 1 if left >= 1 else left, now)
        return 0.0 if left >= 1 else (1 - left) / self._rate


class RateLimits:
    """The rate limits of each key, for new jobs and for all requests."""

    def __init__(self, limits: Limits) -> None:
        self._posts = TokenBucket(limits.posts_per_minute, limits.posts_per_minute / 60)
        self._reads = TokenBucket(limits.reads_per_second, limits.reads_per_second)

    def check(self, client: str, *, post: bool = False) -> None:
        """Raise an error that says how long to wait if there were too many requests."""
        wait = (self._posts if post else self._reads).take(client)
        if wait > 0:
            seconds = int(wait) + 1
            raise ApiError(
                "too_often", f"there were too many requests with this key: wait {seconds} s",
                None, {"retry-after": str(seconds)},
            )  # fmt: skip
