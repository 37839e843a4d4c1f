"""How often a JPEG paints its picture over. Pure; asked by `picture_files.py` before anything decodes the file.

A progressive JPEG comes in scans, some ten of them. Each costs the decoder a walk over the whole picture, however few bytes it has:
fourteen are enough, and a file of a megabyte could keep a processor busy for an hour inside one native call, where nothing can end it.
"""

import re

_MARKER = re.compile(rb"\xff([^\x00\xff])")
_START_OF_SCAN, _END = 0xDA, 0xD9
_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})


def scans_of(file: bytes, most: int) -> int:
    """Count the scans up to the end of the picture, or until there are more than `most`."""
    place, scans = 2, 0

    while scans <= most and (found := _MARKER.search(file, place)) is not None:
        marker, place = found.group(1)[0], found.end()

        if marker == _END:
            break

        if marker in _WITHOUT_LENGTH:
            continue

        # What the length covers is skipped, so that a thumbnail in the notes does not count.
        place += int.from_bytes(file[place : place + 2], "big")
        scans += marker == _START_OF_SCAN

    return scans
