"""How fast a lane goes, and when it will be done."""

from __future__ import annotations

from collections import deque

__all__ = ["RateMeter", "duration"]


class RateMeter:
    """Sentences a second over the last ``window_s`` seconds."""

    def __init__(self, window_s: float = 20.0) -> None:
        self._window_s = window_s
        self._samples: deque[tuple[float, int]] = deque()

    def update(self, now: float, done: int) -> float:
        """Take a sample and return the present rate."""
        samples = self._samples
        samples.append((now, done))
        while len(samples) > 2 and now - samples[1][0] >= self._window_s:
            samples.popleft()
        (then, before), elapsed = samples[0], now - samples[0][0]
        return (done - before) / elapsed if elapsed > 0 and then < now else 0.0


def duration(seconds: float) -> str:
    """Return a duration in words: ``42 s``, ``12 min 05 s``, ``3 h 07 min``, ``2 d 04 h``."""
    whole = max(0, round(seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes_left = divmod(minutes, 60)
    days, hours_left = divmod(hours, 24)
    if days:
        return f"{days} d {hours_left:02d} h"
    if hours:
        return f"{hours} h {minutes_left:02d} min"
    if minutes:
        return f"{minutes} min {rest:02d} s"
    return f"{whole} s"
