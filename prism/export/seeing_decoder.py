"""The speech of the image model that tests make for themselves: from the rows of a conversation to the scores of its next token.

Called by `seeing_model.py`. The cache keeps the rows themselves (`GroupQueryAttention` is there for nothing else), so that slices,
rewinding and shared buffers work as in a real export. Written as a chain of small steps:

    of all positions    which picture each belongs to, which of them are of this turn
    of this turn        how many colours were said: the next one is of the picture of that number
    of the last token   what follows it, unless a colour does
"""

import numpy as np

from prism.export.attention import PAST_KEY, PAST_VALUE, PRESENT_KEY, PRESENT_VALUE
from prism.export.graph import CONTRIB, AnyArray, GraphPart
from prism.export.seeing_scores import Scores
from prism.export.seeing_tokens import CHANNELS, Channel

_ALL = 2**31 - 1


class SeeingDecoder:
    """Writes the graph, once."""

    def __init__(self, graph: GraphPart, scores: Scores) -> None:
        self._graph = graph
        self._scores = scores

    def write(self) -> None:
        graph = self._graph
        rows = graph.input("inputs_embeds", np.float32, ["batch", "length", CHANNELS])
        kept = self._kept(rows)
        said = self._said_this_turn(kept)
        ends = self._channel(kept, Channel.ENDS_PICTURE)
        colour = self._colour_of_picture(kept, ends, said)
        pictures = self._sum(ends, 1, "pictures", keeps_axis=True)
        is_more = graph.cast(graph.node("Less", [said, pictures], "is_more"), np.float32, "more")
        self._write_logits(rows, colour, is_more, self._channel(kept, Channel.ASKS_FOR_EVER))

    def _kept(self, rows: str) -> str:
        """The rows of all positions so far: [batch, total, CHANNELS]."""
        graph = self._graph
        mask = graph.input("attention_mask", np.int64, ["batch", "total"])
        positions = graph.input("position_ids", np.int64, [3, "batch", "length"])
        pasts = [graph.input(name % 0, np.float32, ["batch", 1, "past", CHANNELS]) for name in (PAST_KEY, PAST_VALUE)]
        one = self._whole("one", 1)
        seen = graph.node("Sub", [self._sum(mask, 1, "mask.sum"), one], "seen")
        total = graph.node("Gather", [graph.node("Shape", [mask], "mask.shape"), one], "mask.width")
        presents = [PRESENT_KEY % 0, PRESENT_VALUE % 0]
        lengths = [graph.cast(seen, np.int32, "seqlens_k"), graph.cast(total, np.int32, "total_length")]
        graph.node(
            "GroupQueryAttention",
            [rows, rows, rows, *pasts, *lengths],
            ["attended", *presents],
            domain=CONTRIB,
            attributes={"num_heads": 1, "kv_num_heads": 1},
        )

        for name in presents:
            graph.output(name, np.float32, ["batch", 1, "present", CHANNELS])

        end = graph.node("Unsqueeze", [total, self._list("axis.0", 0)], "end")
        # A shared buffer is as long as the whole sequence may become.
        cut = graph.node("Slice", [presents[1], self._list("zero", 0), end, self._list("axis.2", 2)], "present.cut")
        kept = graph.node("Squeeze", [cut, self._list("axis.1", 1)], "kept")
        # The engine feeds the positions whatever the graph makes of them, so they must be used.
        unused = graph.node(
            "ReduceMax", [graph.cast(positions, np.float32, "positions.float")], "far", attributes={"keepdims": 0}
        )
        nothing = graph.node("Mul", [unused, self._number("zero.number", 0)], "nothing")

        return graph.node("Add", [kept, nothing], "kept.used")

    def _said_this_turn(self, kept: str) -> str:
        """How many words of colour were said since the last turn began: [batch, 1]."""
        graph = self._graph
        turn = self._running(self._channel(kept, Channel.BEGINS_TURN), "turn")
        axes = self._list("axis.1", 1)
        last = graph.node("ReduceMax", [turn, axes], "turn.last", attributes={"keepdims": 1})
        is_this = graph.cast(graph.node("Equal", [turn, last], "turn.is_this"), np.float32, "turn.this")
        said = graph.node("Mul", [self._channel(kept, Channel.IS_COLOUR_WORD), is_this], "said.each")

        return self._sum(said, 1, "said", keeps_axis=True)

    def _colour_of_picture(self, kept: str, ends: str, number: str) -> str:
        """The mean colour of the picture of this number: [batch, 3]; black when there is none."""
        graph = self._graph
        picture = self._running(ends, "picture", is_before=True)
        is_it = graph.cast(graph.node("Equal", [picture, number], "picture.is_it"), np.float32, "picture.it")
        weight = graph.node("Mul", [is_it, self._channel(kept, Channel.IS_PICTURE)], "weight")
        wide = graph.node("Unsqueeze", [weight, self._list("axis.2", 2)], "weight.wide")
        first, behind = self._list("red", Channel.RED), self._list("behind", Channel.BLUE + 1)
        colours = graph.node("Slice", [kept, first, behind, self._list("axis.2", 2)], "colours")
        total = self._sum(graph.node("Mul", [colours, wide], "colours.weighed"), 1, "colour.sum")
        weights = self._sum(weight, 1, "weight.sum", keeps_axis=True)
        at_least_one = graph.node("Max", [weights, self._number("one.number", 1)], "weight.count")

        return graph.node("Div", [total, at_least_one], "colour")

    def _write_logits(self, rows: str, colour: str, is_more: str, for_ever: str) -> None:
        graph = self._graph
        last = graph.node("Gather", [rows, self._whole("last", -1)], "last.row", attributes={"axis": 1})
        kind_wide = graph.node(
            "Gather", [last, self._whole("kind.channel", Channel.KIND)], "kind.float", attributes={"axis": 1}
        )
        kind = graph.cast(kind_wide, np.int64, "kind")
        following = graph.node("Gather", [self._table("following", self._scores.following), kind], "follows")
        hint = self._affine(colour, self._scores.letter_weights, self._scores.letter_bias, "hint")
        again = graph.node(
            "Mul",
            [
                graph.node("Gather", [self._table("again", self._scores.again), kind], "again.scores"),
                graph.node("ReduceMax", [for_ever, self._list("axis.1", 1)], "for_ever", attributes={"keepdims": 1}),
            ],
            "again.asked",
        )
        spoken = graph.node("Sum", [following, hint, again], "spoken")
        named = self._affine(colour, self._scores.colour_weights, self._scores.colour_bias, "named")
        may = graph.node("Gather", [self._table("asks", self._scores.asks_colour), kind], "may")
        is_colour = graph.node("Mul", [may, is_more], "is_colour")
        difference = graph.node("Mul", [is_colour, graph.node("Sub", [named, spoken], "difference")], "change")
        chosen = graph.node("Add", [spoken, difference], "chosen")
        self._write_expanded(rows, chosen)

    def _write_expanded(self, rows: str, scores: str) -> None:
        """Scores are wanted for every position that was fed, though only the last one's are read."""
        graph = self._graph
        vocabulary = self._scores.following.shape[1]
        shape = graph.node("Shape", [rows], "rows.shape", attributes={"end": 2})
        target = graph.node(
            "Concat", [shape, self._list("vocabulary", vocabulary)], "logits.shape", attributes={"axis": 0}
        )
        high = graph.node("Unsqueeze", [scores, self._list("axis.1", 1)], "chosen.high")
        graph.node("Expand", [high, target], "logits")
        graph.output("logits", np.float32, ["batch", "length", vocabulary])

    def _affine(self, value: str, weights: AnyArray, bias: AnyArray, name: str) -> str:
        product = self._graph.node("MatMul", [value, self._table(f"{name}.weights", weights)], f"{name}.product")
        return self._graph.node("Add", [product, self._table(f"{name}.bias", bias)], name)

    def _channel(self, kept: str, channel: Channel) -> str:
        name = channel.name.lower()
        return self._graph.node("Gather", [kept, self._whole(f"{name}.channel", channel)], name, attributes={"axis": 2})

    def _running(self, value: str, name: str, *, is_before: bool = False) -> str:
        """The sum over the positions up to each one; is_before: without itself."""
        axis = self._whole("axis.of_positions", 1)
        return self._graph.node("CumSum", [value, axis], name, attributes={"exclusive": int(is_before)})

    def _sum(self, value: str, axis: int, name: str, *, keeps_axis: bool = False) -> str:
        axes = self._list(f"axis.{axis}", axis)
        return self._graph.node("ReduceSum", [value, axes], name, attributes={"keepdims": int(keeps_axis)})

    def _whole(self, name: str, value: int) -> str:
        return self._graph.small_constant(name, np.asarray(value, np.int64))

    def _list(self, name: str, *values: int) -> str:
        return self._graph.small_constant(name, np.asarray(values, np.int64))

    def _number(self, name: str, value: float) -> str:
        return self._graph.small_constant(name, np.asarray(value, np.float32))

    def _table(self, name: str, value: AnyArray) -> str:
        return self._graph.small_constant(name, value)
