"""Any message of the protocol, for hypothesis."""

from typing import TypeAlias, get_args

from hypothesis import strategies as st

from ipc.messages import (
    Cancel,
    Delta,
    Device,
    FailCode,
    Failed,
    Finished,
    FinishReason,
    FromWorker,
    Generate,
    Guidance,
    GuidanceKind,
    Hello,
    Image,
    Loaded,
    LoadFailCode,
    LoadFailed,
    Phase,
    PrefixReuse,
    Progress,
    RejectCode,
    Rejected,
    Sampling,
    Started,
    ToWorker,
)

Message: TypeAlias = ToWorker | FromWorker
MESSAGE_TYPES: tuple[type[Message], ...] = (*get_args(ToWorker), *get_args(FromWorker))

# What a message can hold: text without lone surrogates, numbers of 64 bits.
TEXT = st.text(st.characters(codec="utf-8"), max_size=50)
COUNT = st.integers(0, 2**63 - 1)
SEC = st.floats(0, 1e9)
SAMPLING = st.builds(
    Sampling,
    temperature=st.floats(0, 2),
    top_p=st.floats(0.001, 1),
    top_k=st.none() | st.integers(1, 1000),
    repetition_penalty=st.none() | st.floats(0.1, 2),
    seed=st.none() | COUNT,
)
GUIDANCE = st.builds(Guidance, kind=st.sampled_from(GuidanceKind), text=TEXT)
IMAGE = st.builds(Image, data=st.binary(max_size=50), field=TEXT, marker=TEXT, is_low_detail=st.booleans())
REUSE = st.builds(PrefixReuse, scope=TEXT, conversation=st.none() | TEXT, ttl_s=st.none() | COUNT)
EACH: dict[type[Message], st.SearchStrategy[Message]] = {
    Generate: st.builds(
        Generate,
        request_id=COUNT,
        prompt=st.lists(TEXT, max_size=4).map(tuple),
        max_tokens=COUNT,
        sampling=SAMPLING,
        guidance=st.none() | GUIDANCE,
        images=st.lists(IMAGE, max_size=2).map(tuple),
        reuse=REUSE,
    ),
    Cancel: st.builds(Cancel, COUNT),
    Hello: st.builds(Hello, secret=st.binary(max_size=64), generation=COUNT, pid=COUNT, version=TEXT),
    Progress: st.builds(Progress, phase=st.sampled_from(Phase), request_id=COUNT, done=COUNT, total=COUNT),
    Loaded: st.builds(
        Loaded,
        device=st.sampled_from(Device),
        fallback_reason=st.none() | TEXT,
        context_length=st.none() | COUNT,
        load_sec=SEC,
        engine_version=TEXT,
    ),
    LoadFailed: st.builds(LoadFailed, code=st.sampled_from(LoadFailCode), message=TEXT),
    Started: st.builds(Started, request_id=COUNT, prompt_tokens=COUNT, max_tokens=COUNT),
    Delta: st.builds(Delta, request_id=COUNT, text=TEXT, completion_tokens=COUNT),
    Finished: st.builds(
        Finished,
        request_id=COUNT,
        reason=st.sampled_from(FinishReason),
        prompt_tokens=COUNT,
        completion_tokens=COUNT,
        cached_tokens=COUNT,
        ttft_sec=SEC,
        decode_tok_per_sec=SEC,
    ),
    Rejected: st.builds(
        Rejected,
        request_id=COUNT,
        code=st.sampled_from(RejectCode),
        message=TEXT,
        field=st.none() | TEXT,
    ),
    Failed: st.builds(Failed, request_id=COUNT, code=st.sampled_from(FailCode), message=TEXT, is_fatal=st.booleans()),
}
TO_WORKER: st.SearchStrategy[ToWorker] = st.one_of(*(EACH[kind] for kind in get_args(ToWorker)))
FROM_WORKER: st.SearchStrategy[FromWorker] = st.one_of(*(EACH[kind] for kind in get_args(FromWorker)))
