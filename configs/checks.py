"""What a model's configuration may not say although it has the right type: names and addresses that make no sense."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from hatevolution.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["check_addresses", "check_model_name"]

_NO_URL: Final = frozenset('\\<>"{}|^`')
"""Printable ASCII that no URL holds as it is (RFC 3986, section 2)."""


def check_model_name(name: str, where: str) -> None:
    """Make sure that a name can be read, typed and told from others; asked wherever a new name is made.

    Letters of any language, digits, signs and single blanks are fine. Names that stand in a store already are not held
    to this: they stay readable, and are shown with everything hidden made visible.

    Args:
        name: The name.
        where: File (or option) that it comes from, for the text of the error.

    Raises:
        ConfigError: It begins or ends with a blank, or holds a character that can't be seen (controls, escape codes,
            line ends, bidirectional and other formatting characters, blanks other than the space).
    """
    hidden = next((char for char in name if not char.isprintable()), None)
    if hidden is not None:
        raise ConfigError(
            f"{where}: the model's name {name!r} holds U+{ord(hidden):04X}; a name has no control or formatting "
            "characters."
        )
    if name != name.strip():
        raise ConfigError(f"{where}: the model's name {name!r} begins or ends with a blank; leave that out.")


def check_addresses(urls: Sequence[str], where: str) -> None:
    """Make sure that somebody can be asked at each of some base URLs.

    The text of the error quotes nothing of them, since what is wrong may be that a secret stands there.

    Args:
        urls: The base URLs; none is fine.
        where: File or model that they come from, for the text of the error.

    Raises:
        ConfigError: One is no HTTP address, holds more than one, or stands there twice.
    """
    for number, url in enumerate(urls, 1):
        problem = _problem(url)
        if problem is not None:
            raise ConfigError(
                f"{where}: base URL {number} is not an address such as 'http://127.0.0.1:8000/v1': it {problem}."
            )
        if url in urls[: number - 1]:
            raise ConfigError(f"{where}: base URL {number} stands there twice; each is named once.")


def _problem(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # of a host in brackets that is none, and of a port that is no number up to 65535
        host, port = None, 0
        parts = None
    if "@" in (url if parts is None else parts.netloc):
        return (
            "has a user name or password in it; put the key into an environment variable and name that with "
            "endpoint.api_key_env"
        )
    if any(char.isspace() or not char.isprintable() or char in _NO_URL for char in url):
        return "holds a blank, or another character that no address has"
    if parts is None:
        return "has a host or port that makes no sense"
    if parts.scheme not in ("http", "https"):
        return "does not begin with http:// or https://"
    if not host:
        return "names no host"
    if port == 0:
        return "has the port 0, which nobody can be asked at"
    if "?" in url or "#" in url:
        return "has a query (?) or fragment (#); the route is put behind it, so it ends with a path"
    return None
