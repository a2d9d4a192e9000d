"""What the command line says about the cluster. Imports nothing of Ray's."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import NamedTuple

from hatevolution.errors import ConfigError, not_installed

__all__ = ["LOCAL", "RayOptions", "ray_options"]

LOCAL = "local"
"""A cluster on this machine, for this run alone."""

_ADDRESS = re.compile(r"[\w.\-\[\]:]+:\d{1,5}")


class RayOptions(NamedTuple):
    """Which cluster, and how many workers."""

    address: str = LOCAL
    workers: int | None = None
    """Workers for models that need no GPU; None: one for each node."""


def ray_options(address: str, workers: int | None = None) -> RayOptions:
    """Check what the command line said.

    Raises:
        ConfigError: The address is none, or Ray is not installed.
    """
    if address.startswith("ray://"):
        raise ConfigError(
            f"--ray {address} names Ray's client port, over which answers don't travel; make this machine a node of "
            f"the cluster (ray start --address=HOST:6379) and say --ray auto."
        )
    if address not in (LOCAL, "auto") and not _ADDRESS.fullmatch(address):
        raise ConfigError(
            f"--ray {address} is no address of a cluster: say --ray alone for one on this machine, --ray auto, or "
            f"--ray HOST:PORT; CONFIG goes before it."
        )
    if find_spec("ray") is None:
        raise not_installed("--ray", "the package 'ray'", "ray")
    return RayOptions(address, workers)
