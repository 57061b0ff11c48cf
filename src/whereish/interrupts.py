"""Ctrl-C: whether it is ours to handle here, and Python's own handler put back."""

from __future__ import annotations

import signal
import threading


def restore_handler() -> None:
    """Put Python's handler of Ctrl-C back: polars replaces it when it is imported.

    What replaced it is below Python, so `signal.getsignal` does not show it. The handler of polars
    passes Ctrl-C on, unless it believes that one of its own queries runs.
    """
    handler = signal.getsignal(signal.SIGINT)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def is_ours() -> bool:
    """Tell whether the first Ctrl-C may end a solve: in the main thread, with Python's handler."""
    if threading.current_thread() is not threading.main_thread():
        return False
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    restore_handler()
    return True
