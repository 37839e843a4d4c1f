"""Finds the data files that an ONNX graph refers to, without a protobuf library. Pure; called by `prism.model_folder`.

A tensor whose values lie elsewhere holds entries `external_data { key: "location" value: "<file>" }`. On the wire
each is: the tag of field 13 of TensorProto, the entry's length, then key and value as strings of fields 1 and 2
(onnx.proto, TensorProto and StringStringEntryProto). The tag keeps other maps of the same entry type (metadata_props)
apart.
"""

import re

# A graph with a file for each of its tensors has some thousands.
MAX_REFERENCES = 20_000
_ENTRY = re.compile(
    rb"\x6a[\x80-\xff]{0,2}[\x00-\x7f]"  # external_data, length of the entry
    rb"\x0a\x08location"
    rb"\x12([\x80-\xff]?[\x01-\x7f])"  # value, its length as a varint of at most two bytes
)


def external_data_files(graph: bytes) -> frozenset[str]:
    """Return the locations, relative to the graph's folder. Empty when the graph holds its own weights.

    One more than MAX_REFERENCES of them are enough to see that there are too many: the search ends there.
    """
    found: set[str] = set()

    for match in _ENTRY.finditer(graph):
        found.add(graph[match.end() : match.end() + _varint(match.group(1))].decode("utf-8", "surrogateescape"))

        if len(found) > MAX_REFERENCES:
            break

    return frozenset(found)


def _varint(encoded: bytes) -> int:
    return sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(encoded))
