"""Fields of a record that another process wrote, each checked before it is believed. Pure.

Unknown fields are ignored, so that a newer server's record can be read.
"""

import json
from collections.abc import Mapping
from typing import cast

from supervisor.process_identity import ProcessIdentity

# Escaped, a character takes up to twelve bytes of a record.
MAX_TEXT_CHARACTERS = 512
_MAX_WHOLE = 1 << 63


class BadRecord(ValueError):
    """What was read is no such record. The message names the field."""


class RecordFields:
    """The fields of one record."""

    def __init__(self, content: bytes) -> None:
        """Raises BadRecord when the content is no JSON object."""
        try:
            # What json.loads returns is not typed; each field is checked where it is taken.
            decoded = cast(object, json.loads(content))
        except (ValueError, RecursionError) as error:
            raise BadRecord(f"the record is no JSON: {error}") from error

        if not isinstance(decoded, dict):
            raise BadRecord(f"the record is no JSON object but a {type(decoded).__name__}")

        self._fields = cast(Mapping[str, object], decoded)

    def text(self, name: str) -> str:
        """Return a text that is not empty."""
        value = self._fields.get(name)

        if not isinstance(value, str):
            raise BadRecord(f"{name} must be a text, not {type(value).__name__}")

        if not 0 < len(value) <= MAX_TEXT_CHARACTERS:
            raise BadRecord(f"{name} must have 1 to {MAX_TEXT_CHARACTERS} characters, not {len(value)}")

        return value

    def text_or_none(self, name: str) -> str | None:
        """Return a text, or None when the field is missing or null."""
        return None if self._fields.get(name) is None else self.text(name)

    def whole(self, name: str) -> int:
        """Return a whole number, not below zero."""
        value = self._fields.get(name)

        # JSON's true is an int to Python.
        if not isinstance(value, int) or isinstance(value, bool):
            raise BadRecord(f"{name} must be a whole number, not {type(value).__name__}")

        if not 0 <= value < _MAX_WHOLE:
            raise BadRecord(f"{name} is out of range: {value}")

        return value

    def identity(self) -> ProcessIdentity:
        """Return the process that wrote the record, as it says."""
        try:
            return ProcessIdentity(
                pid=self.whole("pid"),
                start_ticks=self.whole("start_ticks"),
                boot_id=self.text("boot_id"),
                pid_namespace=self.whole("pid_namespace"),
            )
        except BadRecord:
            raise
        except ValueError as error:
            raise BadRecord(str(error)) from error


def encode_record(identity: ProcessIdentity, fields: Mapping[str, str | int | None]) -> bytes:
    """Return the content of a record of this process."""
    record = {
        "pid": identity.pid,
        "start_ticks": identity.start_ticks,
        "boot_id": identity.boot_id,
        "pid_namespace": identity.pid_namespace,
        **fields,
    }
    return json.dumps(record).encode() + b"\n"
