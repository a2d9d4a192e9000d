"""The program's start: the command ``hatevolution``, and ``python -m hatevolution``."""

from __future__ import annotations

from hatevolution.interrupts import begin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line; Ctrl-C is one sentence from the first moment on."""
    begin()
    from hatevolution.cli import main as run

    run()


if __name__ == "__main__":
    main()
