"""The rows of the document of the REST API, section by section."""

from tests.contract.row import Row, rows_of

ROWS: tuple[Row, ...] = (
    *rows_of(
        "Introduction",
        (
            "intro.address",
            "port 5272 on loopback unless settings say otherwise",
            "prism/test_settings.py::test_without_any_the_defaults_hold "
            "prism/test_settings.py::test_every_flag_takes_effect",
        ),
        ("intro.openai", "the official Python client works", "whole/test_openai_client.py::test_a_stream_can_be_read"),
    ),
    *rows_of(
        "Endpoints",
        ("endpoints.models", "models with size, engine, planned device and what the files were built for"),
        (
            "endpoints.chat",
            "chat completions, streamed or whole",
            "whole/test_chat.py::test_a_whole_answer_has_the_shape_of_the_api",
        ),
        ("endpoints.completions", "text completions take the raw prompt"),
        ("endpoints.models.ollama", "models of Ollama in the list, prompts as one user message"),
        (
            "endpoints.unload",
            "drops the model that is held",
            "whole/test_chat.py::test_unload_is_idempotent_and_the_next_chat_works",
        ),
        (
            "endpoints.drain",
            "finishes, unloads and exits with 0",
            "whole/test_life.py::test_drain_answers_and_exits_with_0",
        ),
        ("endpoints.health", "state, model, device and GPU on three paths, without a key"),
        ("endpoints.slashes", "slashes at the end of a path are accepted"),
    ),
    *rows_of(
        "Request fields",
        ("fields.model", "required; found by the rules of the command line"),
        ("fields.model.ollama", "names with the prefix of Ollama, and names that it has, go there"),
        ("fields.messages", "required list that is not empty; the template is the model's"),
        (
            "fields.stream",
            "true asks for server-sent events",
            "whole/test_chat.py::test_a_stream_begins_with_the_role_and_ends_with_done",
        ),
        (
            "fields.include_usage",
            "one more event with counts and telemetry",
            "whole/test_chat.py::test_a_stream_ends_with_usage_if_asked_for",
        ),
        ("fields.include_usage.ollama", "for Ollama only when it reports counts"),
        ("fields.stop", "one text or up to four; the first match ends the answer and is not shown"),
        ("fields.max_tokens", "512 by default, at least 1, under both names"),
        (
            "fields.max_tokens.room",
            "capped to the room that the prompt leaves",
            "gpu_worker/test_generation.py::test_max_tokens_is_capped_to_the_room_in_the_window",
        ),
        ("errors.window", "a prompt that fills the window is a 400 with a code"),
        ("fields.tools", "functions in OpenAI's form"),
        ("choice.none", "drops the tools"),
        ("choice.auto", "sends all tools"),
        ("choice.required", "sends all tools"),
        ("choice.named", "narrows to one tool, which has to be offered"),
        ("choice.other", "any other shape is a 400"),
        ("fields.temperature", "0.1 by default; 0 is greedy"),
        ("fields.top_p", "0.9 by default"),
        (
            "fields.top_k",
            "from 1; by default the model's own above 1, else 40",
            "gpu_worker/test_sampling.py::test_top_k_is_the_requests_then_the_models_above_one_then_forty",
        ),
        ("fields.repetition_penalty", "above 0"),
        ("fields.penalties", "−2 to 2; on ONNX models only 0"),
        ("fields.content", "a text or parts; parts that are not text are dropped"),
        ("fields.ignored", "all other fields are accepted and ignored"),
    ),
    *rows_of(
        "Responses",
        ("responses.shape", "as OpenAI's"),
        ("responses.stop", "stop at the end of the sequence"),
        ("responses.length", "length at the cap"),
        (
            "responses.loop",
            "length when the model repeats one cycle; the guard can be switched off",
            "gpu_worker/test_generation.py::test_without_the_guard_a_stuck_model_runs_to_the_cap",
        ),
        ("responses.usage", "counts of the model's tokenizer"),
        ("responses.reasoning", "thinking goes to reasoning_content and out of content"),
        ("responses.ollama", "reason and counts as the daemon reports them"),
        ("responses.telemetry", "time to first token, speed, device"),
        ("stream.order", "role, deltas, reason, end; unchanged without the option"),
        ("stream.reasoning", "deltas of thinking come first"),
        ("stream.usage", "counts and telemetry after the reason, without choices"),
        (
            "stream.error",
            "a failure after the beginning is one event before the end",
            "contract/test_faults.py::test_a_fault_in_a_stream_is_one_error_and_the_end",
        ),
        (
            "stream.disconnect",
            "generation stops when the client leaves",
            "whole/test_chat.py::test_a_client_that_leaves_stops_the_work "
            "contract/test_connections.py::test_a_client_that_leaves_a_buffered_answer_stops_the_work",
        ),
    ),
    *rows_of(
        "Tool calling",
        ("tools.reply", "calls with id, type, name and arguments as JSON text; text before them; the reason"),
        ("tools.reasoning", "thinking before a call is no content"),
        ("tools.result", "results of calls go back as messages"),
        ("tools.not-supported", "a template that takes no tools is a 400 with a code"),
        (
            "tools.conventions",
            "the conventions of the models' own templates are recognised, their markers put back",
            "chat/test_tool_calls.py::test_call_is_read_and_leaves_no_text "
            "gpu_worker/test_markers.py::test_the_brackets_of_calls_and_thinking_are_markers",
        ),
        ("tools.stream", "held back, and sent as few chunks at the end"),
        ("tools.ollama", "the daemon reads the calls"),
        ("tools.shape", "the shape of the reply is guaranteed, the choice is not"),
        (
            "tools.structure",
            "support is decided from the code of the template, not from its words",
            "chat/test_tool_support.py::test_slot_is_where_the_code_looks",
        ),
    ),
    *rows_of(
        "Embeddings",
        ("embeddings.onnx", "an ONNX model is a 400 with a code"),
        ("embeddings.model", "a model that is not there is a 404"),
        ("embeddings.input", "a text, or up to 256, none empty, no tokens"),
        ("embeddings.encoding", "float or base64"),
        ("embeddings.dimensions", "a 400 with a code"),
        (
            "embeddings.daemon",
            "no daemon is a 502",
            "ollama/test_misbehaviour.py::test_what_is_no_daemon_is_a_502_on_every_route",
        ),
        ("embeddings.reply", "one vector for each text, and counts"),
    ),
    *rows_of(
        "Unload",
        (
            "unload.reply",
            "whether a model was released, and which; harmless twice",
            "whole/test_chat.py::test_unload_is_idempotent_and_the_next_chat_works",
        ),
        ("unload.body", "optional; any object, and nothing else"),
        (
            "unload.waits",
            "waits for the running generation",
            "contract/test_queue.py::test_unload_waits_for_the_running_request_and_goes_ahead_of_the_queue",
        ),
        (
            "unload.budget",
            "the next load is checked against memory again",
            "whole/test_two_servers.py::test_one_without_room_is_told_whom_to_drain_and_loads_after_that",
        ),
    ),
    *rows_of(
        "Drain",
        ("drain.reply", "what was released, and the delay", "whole/test_life.py::test_drain_answers_and_exits_with_0"),
        (
            "drain.body",
            "optional; any object, and nothing else",
            "whole/test_life.py::test_a_refused_drain_schedules_no_exit",
        ),
        (
            "drain.waits",
            "the running generation ends first",
            "whole/test_life.py::test_drain_lets_a_stream_end_whole_and_refuses_what_is_new",
        ),
        (
            "drain.holder",
            "an orchestrator learns from error.holder whom to drain",
            "whole/test_two_servers.py::test_one_without_room_is_told_whom_to_drain_and_loads_after_that",
        ),
    ),
    *rows_of(
        "Errors",
        ("errors.envelope", "always the same JSON"),
        ("errors.400", "JSON, messages, model, numbers: a 400 without a code"),
        ("errors.template", "a template that raises on tools: model and cause"),
        ("errors.ambiguous", "a name that fits several models: all of them"),
        (
            "errors.key",
            "401 without the right key",
            "contract/test_keys.py::test_every_route_but_the_public_ones_asks_for_a_key",
        ),
        ("errors.host", "403 for a foreign host", "contract/test_hosts.py::test_a_foreign_host_is_refused"),
        ("errors.model", "404 for an unknown model"),
        ("errors.route", "404 for an unknown route", "contract/test_methods.py::test_an_unknown_route_is_a_404"),
        ("errors.too-large", "413 past 10 MiB"),
        (
            "errors.resources",
            "503 with Retry-After when memory does not suffice",
            "contract/test_faults.py::test_a_fault_before_the_stream_is_a_plain_answer",
        ),
        (
            "errors.budget",
            "loading is refused before it can hurt, and the holder is named",
            "supervisor/test_admission.py::test_a_model_that_does_not_fit_into_main_memory_is_refused_with_figures "
            "whole/test_two_servers.py::test_one_without_room_is_told_whom_to_drain_and_loads_after_that",
        ),
        (
            "errors.busy",
            "503 with Retry-After past the queue's timeout or length",
            "contract/test_queue.py::test_a_full_queue_refuses_at_once "
            "contract/test_queue.py::test_waiting_too_long_is_refused",
        ),
        (
            "errors.load",
            "500 when the model cannot be loaded",
            "contract/test_faults.py::test_a_fault_before_the_stream_is_a_plain_answer",
        ),
        (
            "errors.backend",
            "502 when Ollama is unreachable or fails",
            "ollama/test_misbehaviour.py::test_a_daemon_that_is_missing_is_a_502_at_once "
            "ollama/test_misbehaviour.py::test_a_daemon_that_cannot_be_reached_costs_two_seconds",
        ),
    ),
    *rows_of(
        "Concurrency",
        (
            "concurrency.one",
            "one model, one generation at a time, others wait",
            "contract/test_queue.py::test_requests_are_answered_in_order_of_arrival",
        ),
        (
            "concurrency.timeout",
            "300 s by default, then 503",
            "contract/test_queue.py::test_waiting_too_long_is_refused",
        ),
        (
            "concurrency.length",
            "8 by default, then 503 at once",
            "contract/test_queue.py::test_a_full_queue_refuses_at_once",
        ),
        (
            "concurrency.memory",
            "too little memory refuses a load",
            "supervisor/test_admission.py::test_a_model_that_does_not_fit_onto_the_gpu_is_refused",
        ),
        (
            "concurrency.swap",
            "another model takes the place of the resident one",
            "contract/test_queue.py::test_another_model_takes_the_place_of_the_resident_one",
        ),
        (
            "concurrency.ollama",
            "requests for Ollama are not serialised",
            "ollama/test_leaving.py::test_requests_do_not_wait_for_each_other_nor_in_the_queue",
        ),
        (
            "concurrency.leaves",
            "who leaves the queue frees the place, on both endpoints",
            "whole/test_chat.py::test_a_client_that_leaves_the_queue_is_forgotten "
            "contract/test_queue.py::test_a_text_completion_that_leaves_the_queue_is_forgotten",
        ),
        (
            "concurrency.signals",
            "Ctrl+C and SIGTERM finish the stream and exit with 0, without a traceback",
            "whole/test_life.py::test_a_signal_finishes_the_stream_and_exits_with_0",
        ),
    ),
    *rows_of(
        "Authentication and CORS",
        (
            "auth.key",
            "with a key all but health ask for it",
            "contract/test_keys.py::test_every_route_but_the_public_ones_asks_for_a_key",
        ),
    ),
)
