"""How long work tells how far it is. Imports nothing, so that `prism/pull/` can name it without the libraries of the `demo` extra."""

from collections.abc import Callable
from typing import TypeAlias

# progress(step, done, total): what is being done, how much of it, and of how much; None when that is not known.
Progress: TypeAlias = Callable[[str, int, int | None], None]
