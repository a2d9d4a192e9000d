"""LitServe, without what breaks beside vLLM.

LitServe 0.2.19 starts its MCP part wherever the package ``mcp`` is installed, as it is with vLLM, but defines it only
where ``fastmcp`` is: every start ends with a NameError. An entry of None makes ``mcp`` look absent; nothing here
needs it.
"""

import sys

sys.modules.setdefault("mcp", None)  # type: ignore[arg-type]

from litserve import LitAPI, LitServer  # noqa: E402 - after the entry, not before

__all__ = ["LitAPI", "LitServer"]
