"""A model that answers every prompt with the same script, token for token, for tests of what happens to the text afterwards.

Not a Llama: a small automaton in ONNX. Its state lies where a model keeps its keys, one number a position, so slicing a prompt,
rewinding and going on work as with any other model. The state is how many tokens of the script stand at the end of the text so far:

    the next token of the script   one more
    <|im_start|>                   in a header; the first newline after it ends the header, and none of the script has been said
    anything else                  none of the script has been said

Thus a history that holds earlier answers changes nothing. Only a prompt that goes on after its last header (or that has none) with
the script's own beginning is taken to have said that part already.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from prism.export.attention import PAST_KEY, PAST_VALUE, PRESENT_KEY, PRESENT_VALUE
from prism.export.genai_config import SearchDefaults, genai_config
from prism.export.graph import Graph, GraphPart
from prism.export.llama import LlamaShape
from prism.export.tiny_tokenizer import CHATML_TEMPLATE, tiny_tokenizer
from prism.export.tokenizer_files import TokenizerSpec, byte_spelling, write_tokenizer

_NEVER = -1
_SURE = 100.0  # a logit so far above the others (0) that sampling at any usual temperature takes it


def write_reciting_model(
    folder: Path, script: Sequence[bytes], *, context_length: int = 2048, chat_template: str = CHATML_TEMPLATE
) -> None:
    """Write a model whose answer is `script`, one token a piece, then the end-of-sequence token. The folder is made if it is missing.

    A piece is any bytes: a part of a character, white space, the text of an added token such as b"<think>" (then it is that token).
    Pieces may repeat. Raises ValueError for an empty piece or the end token itself, FileExistsError when the folder holds a model.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer, script_ids = _tokenizer(script, chat_template)
    shape = _shape(len(tokenizer.tokens), context_length)

    with Graph(folder) as graph:
        _write_graph(graph, tokenizer, script_ids)
        graph.save()

    write_tokenizer(folder, tokenizer, context_length=context_length)
    inputs = {
        "input_ids": "input_ids",
        "attention_mask": "attention_mask",
        "past_key_names": PAST_KEY,
        "past_value_names": PAST_VALUE,
    }
    config = genai_config(shape, tokenizer, inputs, SearchDefaults())
    (folder / "genai_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _tokenizer(script: Sequence[bytes], chat_template: str) -> tuple[TokenizerSpec, list[int]]:
    """The tiny tokenizer with a token for every piece that it lacks, and the script as ids."""
    base = tiny_tokenizer()
    whole = {base.tokens[index].encode(): index for index in (*base.control_ids, *base.added_ids)}
    spelling = byte_spelling()
    known = {token: index for index, token in enumerate(base.tokens)}
    extra: list[str] = []
    ids: list[int] = []

    for piece in script:
        if not piece or whole.get(piece) == base.eos_id:
            raise ValueError(f"{piece!r} cannot be a piece of a script")

        text = "".join(spelling[byte] for byte in piece)

        if piece not in whole and text not in known:
            known[text] = len(base.tokens) + len(extra)
            extra.append(text)

        ids.append(whole[piece] if piece in whole else known[text])

    return tiny_tokenizer(extra_tokens=extra, chat_template=chat_template), ids


def _shape(vocabulary: int, context_length: int) -> LlamaShape:
    """What the engine must know to keep one number a position."""
    return LlamaShape(
        layers=1,
        hidden=1,
        heads=1,
        kv_heads=1,
        head_size=1,
        feed_forward=1,
        vocabulary=vocabulary,
        context_length=context_length,
        rope_base=1.0,
        norm_epsilon=0.0,
    )


def _write_graph(graph: Graph, tokenizer: TokenizerSpec, script: list[int]) -> None:
    """Read the last state, run the automaton over the new tokens, keep their states, and score the token that follows."""
    ids = graph.input("input_ids", np.int64, ["batch_size", "sequence_length"])
    graph.input("attention_mask", np.int64, ["batch_size", "total_sequence_length"])
    past_key = graph.input(PAST_KEY % 0, np.float32, ["batch_size", 1, "past_sequence_length", 1])
    past_value = graph.input(PAST_VALUE % 0, np.float32, ["batch_size", 1, "past_sequence_length", 1])
    flat = graph.small_constant("flat", np.asarray([-1], np.int64))
    last = graph.small_constant("last", np.asarray(-1, np.int64))

    past_states = graph.cast(graph.node("Reshape", [past_key, flat], "past.flat"), np.int64, "past.states")
    beginning = graph.small_constant("beginning", np.asarray([0], np.int64))
    known = graph.node("Concat", [beginning, past_states], "known", attributes={"axis": 0})
    before = graph.node("Gather", [known, last], "before")
    tokens = graph.node("Reshape", [ids, flat], "tokens")
    graph.node(
        "Scan",
        [before, tokens],
        ["after", "states"],
        attributes={"num_scan_inputs": 1},
        bodies={"body": _automaton(tokenizer, script)},
    )

    cache_shape = graph.small_constant("cache.shape", np.asarray([1, 1, -1, 1], np.int64))
    new = graph.cast(graph.node("Reshape", ["states", cache_shape], "states.cache"), np.float32, "states.float")

    for name, past in ((PRESENT_KEY % 0, past_key), (PRESENT_VALUE % 0, past_value)):
        graph.node("Concat", [past, new], name, attributes={"axis": 2})
        graph.output(name, np.float32, ["batch_size", 1, "total_sequence_length", 1])

    _write_scores(graph, tokenizer, script)


def _write_scores(graph: Graph, tokenizer: TokenizerSpec, script: list[int]) -> None:
    """Logits [1, 1, vocabulary] for the token that the last state calls for."""
    said_all = [*script, tokenizer.eos_id]
    following = graph.small_constant("following", np.asarray([*said_all, said_all[0]], np.int64))
    token = graph.node("Gather", [following, "after"], "token")
    square = graph.node(
        "Reshape", [token, graph.small_constant("square", np.asarray([1, 1], np.int64))], "token.square"
    )
    depth = graph.small_constant("depth", np.asarray(len(tokenizer.tokens), np.int64))
    scores = graph.small_constant("scores", np.asarray([0, _SURE], np.float32))
    graph.node("OneHot", [square, depth, scores], "logits")
    graph.output("logits", np.float32, ["batch_size", 1, len(tokenizer.tokens)])


def _automaton(tokenizer: TokenizerSpec, script: list[int]) -> GraphPart:
    """One step: the state and a token give the next state. States 0 to len(script) count; the one after them is "in a header"."""
    header = len(script) + 1
    body = GraphPart()
    state = body.input("state", np.int64, [])
    token = body.input("token.in", np.int64, [])
    newline = tokenizer.tokens.index(byte_spelling()[ord("\n")])

    def number(name: str, value: int) -> str:
        return body.small_constant(name, np.asarray(value, np.int64))

    def is_equal(left: str, right: str, name: str) -> str:
        return body.node("Equal", [left, right], name)

    table = body.small_constant("expected.table", np.asarray([*script, _NEVER, _NEVER], np.int64))
    expected = body.node("Gather", [table, state], "expected")
    one_more = body.node("Add", [state, number("one", 1)], "one_more")
    ends_header = is_equal(token, number("newline", newline), "ends_header")
    in_header = body.node("Where", [ends_header, number("none", 0), number("header", header)], "in_header")
    is_header = is_equal(state, "header", "is_header")
    otherwise = body.node("Where", [is_header, in_header, "none"], "otherwise")
    starts = is_equal(token, number("im_start", tokenizer.bos_id), "starts")
    restarted = body.node("Where", [starts, "header", otherwise], "restarted")
    matches = is_equal(token, expected, "matches")
    body.node("Where", [matches, one_more, restarted], "state.next")
    body.node("Identity", ["state.next"], "state.kept")
    body.output("state.next", np.int64, [])
    body.output("state.kept", np.int64, [])

    return body
