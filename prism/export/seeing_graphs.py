"""The eyes of the image model that tests make for themselves: pixels into rows, and rows into the places of pictures in a prompt.

Called by `seeing_model.py`. What the rows say is in `seeing_tokens.py`.
"""

import numpy as np
import numpy.typing as npt

from prism.export.graph import GraphPart
from prism.export.seeing_tokens import (
    BEGINNING,
    CHANNELS,
    COLOURS,
    FOR_EVER,
    FULL_STOP,
    NOTHING,
    PICTURE_END_ID,
    PICTURE_ID,
    SEE,
    TURN_ID,
    Channel,
    Kind,
    SeeingTokens,
)

# How the engine's processor for this model type cuts a picture: squares of so many pixels, two frames deep, four squares a token.
PATCH = 14
FRAMES = 2
MERGED = 2
_VALUES_OF_CHANNEL = FRAMES * PATCH * PATCH


def write_vision(graph: GraphPart) -> None:
    """A token of a picture is the mean colour of its four squares."""
    pixels = graph.input("pixel_values", np.float32, ["patches", 3 * _VALUES_OF_CHANNEL])
    grid = graph.input("image_grid_thw", np.int64, ["images", 3])
    by_colour = _reshaped(graph, pixels, [-1, 3, _VALUES_OF_CHANNEL], "by_colour")
    square = _mean(graph, by_colour, 2, "square")
    token = _mean(graph, _reshaped(graph, square, [-1, MERGED * MERGED, 3], "squares"), 1, "token")

    to_channels = np.zeros((3, CHANNELS), np.float32)
    to_channels[[0, 1, 2], [Channel.RED, Channel.GREEN, Channel.BLUE]] = 1
    mark = np.zeros(CHANNELS, np.float32)
    mark[Channel.IS_PICTURE] = 1
    coloured = graph.node("MatMul", [token, graph.small_constant("to_channels", to_channels)], "coloured")
    marked = graph.node("Add", [coloured, graph.small_constant("mark", mark)], "marked")
    # The engine feeds the grid whatever the graph makes of it, so it must be used.
    total = graph.node("ReduceSum", [graph.cast(grid, np.float32, "grid.float")], "total", attributes={"keepdims": 0})
    nothing = graph.node("Mul", [total, graph.small_constant("zero", np.asarray(0, np.float32))], "nothing")
    graph.node("Add", [marked, nothing], "image_features")
    graph.output("image_features", np.float32, ["tokens", CHANNELS])


def write_embedding(graph: GraphPart, tokens: SeeingTokens) -> None:
    """The row of each token; the places of pictures get the pictures' rows, in order."""
    ids = graph.input("input_ids", np.int64, ["batch", "length"])
    features = graph.input("image_features", np.float32, ["tokens", CHANNELS])
    rows = graph.node("Gather", [graph.small_constant("table", _table(tokens)), ids], "rows")
    is_picture = graph.node(
        "Equal", [ids, graph.small_constant("picture", np.asarray(PICTURE_ID, np.int64))], "is_picture"
    )
    places = graph.node(
        "Transpose", [graph.node("NonZero", [is_picture], "found")], "places", attributes={"perm": [1, 0]}
    )
    # While it answers there are no features, though a token of a picture may have been typed: no more places than rows.
    begin = graph.small_constant("begin", np.asarray([0], np.int64))
    one = graph.small_constant("one", np.asarray([1], np.int64))
    count = graph.node("Slice", [graph.node("Shape", [features], "features.shape"), begin, one], "count")
    taken = graph.node("Slice", [places, begin, count, begin], "taken")
    graph.node("ScatterND", [rows, taken, features], "inputs_embeds")
    graph.output("inputs_embeds", np.float32, ["batch", "length", CHANNELS])


def _table(tokens: SeeingTokens) -> npt.NDArray[np.float32]:
    table = np.zeros((len(tokens.tokenizer.tokens), CHANNELS), np.float32)
    ids = tokens.ids
    table[TURN_ID, Channel.BEGINS_TURN] = 1
    table[PICTURE_END_ID, Channel.ENDS_PICTURE] = 1
    table[ids[FOR_EVER], Channel.ASKS_FOR_EVER] = 1

    for word, kind in {
        BEGINNING: Kind.BEGINNING,
        SEE: Kind.SEE,
        NOTHING: Kind.NOTHING,
        FULL_STOP: Kind.FULL_STOP,
    }.items():
        table[ids[word], Channel.KIND] = kind

    for word in COLOURS:
        table[ids[word], Channel.KIND] = Kind.COLOUR
        table[ids[word], Channel.IS_COLOUR_WORD] = 1

    return table


def _reshaped(graph: GraphPart, value: str, shape: list[int], name: str) -> str:
    return graph.node("Reshape", [value, graph.small_constant(f"{name}.shape", np.asarray(shape, np.int64))], name)


def _mean(graph: GraphPart, value: str, axis: int, name: str) -> str:
    axes = graph.small_constant(f"{name}.axes", np.asarray([axis], np.int64))
    return graph.node("ReduceMean", [value, axes], name, attributes={"keepdims": 0})
