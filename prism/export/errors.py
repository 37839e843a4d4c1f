"""What can go wrong when a model folder is written.

ExportError
├── UnsupportedModel   the source is readable but is not a model that this writer knows
└── BadSource          the source is damaged or is not the format that it should be
"""


class ExportError(Exception):
    """A model folder cannot be written; the message is one line for the user."""


class UnsupportedModel(ExportError):
    """The source holds a model that the writer has no graph for; the message names the field and its value."""


class BadSource(ExportError):
    """The source file is damaged, or lacks a field or a tensor that it must have; the message names it."""
