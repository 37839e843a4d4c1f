"""Names of the headers that are Prism's own, where more than one file writes them."""

from typing import Final

DROPPED_PARTS_HEADER: Final = "X-Prism-Dropped-Parts"
