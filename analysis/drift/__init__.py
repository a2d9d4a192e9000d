"""What changed between two names of one model: the same sentences, asked at two dates."""

from __future__ import annotations

from hatevolution.analysis.drift.compare import Drift, drift

__all__ = ["Drift", "drift"]
