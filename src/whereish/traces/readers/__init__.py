"""The formats of traces that can be read: one file for each, and this registry.

To add a format, write a subclass of `Reader` in a file of this folder and add it to the call of
`register` below. `open_traces`, ``whereish profile --kind`` and the messages follow. CONTRIBUTING
says which tests and pages have a line for each format.
"""

from whereish.traces.readers.delimited import Csv
from whereish.traces.readers.geojson import GeoJson
from whereish.traces.readers.geolife import GeoLife
from whereish.traces.readers.google import Google
from whereish.traces.readers.gpx import Gpx
from whereish.traces.readers.owntracks import OwnTracks
from whereish.traces.readers.parquet import Parquet
from whereish.traces.readers.reader import Options, Reader
from whereish.traces.readers.snap import Snap
from whereish.traces.readers.t_drive import TDrive

__all__ = ["KINDS", "READERS", "Options", "Reader", "register"]

# Of a folder with files of several formats, the first format of this list is read: the one that
# says most about people. A file is of the first format whose `sniff` recognises it.
READERS: dict[str, Reader] = {}
KINDS = READERS.keys()


def register(*readers: Reader) -> None:
    """Add formats; one of a name that is known takes the place of the other."""
    READERS.update({reader.name: reader for reader in readers})


register(GeoLife(), Google(), Gpx(), GeoJson(), OwnTracks(), Parquet(), TDrive(), Snap(), Csv())
