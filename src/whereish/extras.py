"""The optional parts of the package, and how to install one that is missing."""

from __future__ import annotations

import importlib
from typing import Any

from whereish.errors import InputError

# The modules that only an extra of the package installs.
EXTRAS = {
    "serve": (
        "fastapi", "httptools", "prometheus_client", "psycopg", "uvicorn", "uvloop",
    ),
    "cluster": ("ray", "fsspec"),
    "h3": ("h3",),
    "map": ("osmium",),
    "accounting": ("dp_accounting",),
    "notebook": ("pandas", "geopandas", "networkx"),
}  # fmt: skip
_EXTRA_OF = {module: extra for extra, modules in EXTRAS.items() for module in modules}


def require(module: str, user: str) -> Any:
    """Import a module of an extra.

    Parameters
    ----------
    module
        Its name, like ``"h3.api.basic_int"``.
    user
        The part of Whereish that needs it: the subject of the message.

    Raises
    ------
    InputError
        If it is not installed. The message is one line and says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        raise InputError(missing_extra(missing, user) or str(missing)) from None


def missing_extra(missing: ModuleNotFoundError, user: str = "this command") -> str | None:
    """Say how to install the module that an import did not find; None if no extra has it.

    >>> missing_extra(ModuleNotFoundError(name="ray"), "a cluster")
    "a cluster needs the package ray, which is not installed: pip install 'whereish[cluster]'"
    """
    package = (missing.name or "").partition(".")[0]
    extra = _EXTRA_OF.get(package)
    if extra is None:
        return None
    return (
        f"{user} needs the package {package}, which is not installed: "
        f"pip install 'whereish[{extra}]'"
    )
