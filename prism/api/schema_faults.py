"""The one error of the files that read JSON Schemas. Pure."""


class SchemaUnsupported(ValueError):
    """A part of a schema cannot be enforced. The message is a sentence without its subject; path: where the part is, `#/properties/a`."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path
