"""Import every module of the installed package; run on its own, as ``python -P import_all.py [--base]``.

With ``--base`` the extras are taken to be missing: then modules of ``hatevolution.adapters`` and the plugin that
Datasette loads, and only those, may need a package that is not there. Prints what was imported and leaves with 1 where
an import failed.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

_MAY_LACK = ("hatevolution.adapters.seq2seq_server.",)
_BASE_MAY_LACK = ("hatevolution.adapters.", "hatevolution.cli._audit_plugin")


def main(arguments: list[str]) -> int:
    """Import them all and return the exit code."""
    base = arguments == ["--base"]
    package = importlib.import_module("hatevolution")
    names = ["hatevolution", *(found.name for found in pkgutil.walk_packages(package.__path__, "hatevolution."))]
    failed = []
    for name in names:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            outside = not str(error.name).startswith("hatevolution")
            # The seq2seq server may live in an environment of its own.
            may_lack = _BASE_MAY_LACK if base else _MAY_LACK
            if outside and name.startswith(may_lack):
                print(f"{name} needs the extra that holds {error.name}")
            else:
                failed.append(f"{name}: {error}")
        except Exception as error:  # the others are to be tried all the same
            failed.append(f"{name}: {type(error).__name__}: {error}")
    print(f"{len(names) - len(failed)} of {len(names)} modules of {package.__path__[0]}")
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
