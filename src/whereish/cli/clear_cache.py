"""``whereish clear-cache``: delete what `whereish profile` has counted and kept."""

from __future__ import annotations

from whereish.cli.console import Facts, command, say
from whereish.cli.options import AS_JSON
from whereish.traces import cache_folder, forget


@command
def clear_cache(as_json: bool = AS_JSON) -> Facts:
    """Delete the counts of traces that `profile` has kept.

    Only your own files are in this cache. The traces themselves are not touched.
    """
    folder = cache_folder()
    count = forget(folder)
    say(f"Deleted {count} files from {folder}." if count else f"{folder} was empty already.")
    return {"deleted": count, "folder": str(folder)}
