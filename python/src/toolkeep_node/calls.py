"""What a tool may know of the call that it runs in."""

from __future__ import annotations

import contextvars
import threading
from typing import Callable, Optional

Teller = Callable[[float, Optional[float], str], None]


class Running:
    """One call."""

    def __init__(self, tell: Optional[Teller] = None) -> None:
        self.tell = tell
        self.cancelled = threading.Event()


_running: contextvars.ContextVar[Optional[Running]] = contextvars.ContextVar("running", default=None)


def within(running: Running, function: Callable[[], bytes]) -> bytes:
    """Runs `function` as part of a call."""

    def run() -> bytes:
        _running.set(running)
        return function()

    return contextvars.copy_context().run(run)


def report_progress(done: float, total: Optional[float] = None, message: str = "") -> None:
    """Tells the caller how far the call came, where it asked for that. Never waits."""
    running = _running.get()
    if running is not None and running.tell is not None:
        running.tell(float(done), None if total is None else float(total), str(message))


def is_cancelled() -> bool:
    """Whether the caller has given up: what is still done is for nobody."""
    running = _running.get()
    return running is not None and running.cancelled.is_set()
