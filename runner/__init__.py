"""The asynchronous orchestrator: plan, lanes, limits, retries, breaker, progress."""
