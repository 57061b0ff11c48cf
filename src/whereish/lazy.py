"""Packages that are slow to import and often not needed: they are imported at their first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl
    import shapely
    from scipy import fft, ndimage
else:

    class _Lazy:
        def __init__(self, package: str) -> None:
            self.__package = package

        def __getattr__(self, name: str) -> Any:
            value = getattr(importlib.import_module(self.__package), name)
            setattr(self, name, value)
            return value

    pl = _Lazy("polars")
    shapely = _Lazy("shapely")
    fft = _Lazy("scipy.fft")
    ndimage = _Lazy("scipy.ndimage")

__all__ = ["fft", "ndimage", "pl", "shapely"]
