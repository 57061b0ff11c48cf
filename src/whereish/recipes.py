"""The old name of `whereish.spec`: kept so that programs which use it go on working."""

from whereish.spec import BuildSpec, read_json

Recipe = BuildSpec

__all__ = ["Recipe", "read_json"]
