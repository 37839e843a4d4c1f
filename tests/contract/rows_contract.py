"""The rows of the contract, which decides where the documents differ or are silent."""

from tests.contract.row import Row, rows_of

ROWS: tuple[Row, ...] = (
    *rows_of(
        "1. Where they differ",
        ("contract.first-delta", "the first delta has the role and an empty content"),
        ("contract.response_format", "text, any object, or what fits a schema; what cannot be kept is a 400"),
        (
            "contract.json",
            "content that parses and fits the schema, behind the thinking of models that think",
            "whole/test_structured_output.py::test_a_random_model_answers_random_schemas_with_what_fits "
            "whole/test_structured_output.py::test_a_streamed_answer_is_the_whole_answer_and_fits "
            "whole/test_structured_output.py::test_json_mode_gives_an_object "
            "whole/test_structured_thinking.py::test_thinking_that_the_prompt_has_opened_goes_on_until_it_is_closed",
        ),
        (
            "contract.must-call",
            "required and named calls are certain",
            "whole/test_forced_calls.py::test_every_answer_is_a_call_that_fits "
            "whole/test_forced_calls.py::test_one_call_when_only_one_is_wanted",
        ),
        (
            "contract.images",
            "models that can see take pictures as data URLs; links are never fetched; what cannot be decoded is a 400 that names it",
            "whole/test_images.py::test_pictures_are_seen_in_order "
            "whole/test_images.py::test_every_hostile_file_is_a_400_that_names_it "
            "whole/test_images.py::test_urls_that_are_no_pictures_are_a_400 "
            "whole/test_images.py::test_a_model_without_sight_drops_pictures_and_says_so",
        ),
        ("contract.dropped-parts", "parts that are not text are dropped for others, and counted in a header"),
        (
            "contract.jinja",
            "tools_not_supported means the template, never a missing package",
            "chat/test_tool_support.py::test_slot_is_where_the_code_looks",
        ),
        ("contract.images.ollama", "pictures for Ollama are checked and passed on"),
        (
            "strict.roles",
            "five roles, developer as system where the template knows none; others are a 400",
            "chat/test_prompt_roles.py::test_developer_stays_where_the_template_knows_it_and_is_system_elsewhere",
        ),
        (
            "contract.reasoning",
            "effort is taken in both forms, unknown levels are a 400, none switches thinking off",
            "chat/test_prompt.py::test_effort_and_the_opening_of_thinking "
            "chat/test_prompt.py::test_model_that_thinks_unasked_gets_an_empty_block "
            "whole/test_reasoning_controls.py::test_reasoning_effort_wins_unless_thinking_is_switched_off",
        ),
        (
            "contract.reasoning-none",
            "the first token is answer text, whatever the kind of template",
            "whole/test_reasoning_counts.py::test_none_begins_with_the_answer_for_every_kind_of_template "
            "chat/test_prompt_effort.py::test_none_leaves_no_thinking_to_begin",
        ),
        (
            "contract.reasoning-levels",
            "each level goes to the template, in its own words; a model without control ignores it",
            "chat/test_effort_levels.py::test_each_effort_is_the_nearest_level_that_the_template_has "
            "chat/test_prompt_effort.py::test_a_switch_is_off_for_none_and_on_for_every_level "
            "chat/test_prompt_effort.py::test_a_budget_of_tokens_grows_with_the_effort "
            "chat/test_prompt_effort.py::test_harmony_gets_one_of_its_three_levels "
            "chat/test_prompt_effort.py::test_a_model_without_control_ignores_every_level",
        ),
        (
            "contract.reasoning-tokens",
            "are told apart in usage",
            "whole/test_reasoning_counts.py::test_thinking_is_counted_alike_in_both_modes",
        ),
        (
            "contract.reasoning-ollama",
            "levels go to Ollama as think",
            "ollama/test_requests.py::test_effort_becomes_thinking",
        ),
        ("contract.cache", "the fields of conversations are checked"),
        (
            "contract.kept-prefix",
            "they decide which prefix goes on, for no longer than the ttl, never for another key; cached tokens are told",
            "whole/test_prefix_reuse.py::test_conversations_are_kept_apart_by_their_names "
            "whole/test_prefix_reuse.py::test_the_worker_is_told_whose_request_it_is_but_not_the_key "
            "whole/test_prefix_reuse.py::test_keys_share_nothing_and_nothing_outlives_the_worker "
            "whole/test_prefix_reuse.py::test_the_next_turn_is_told_to_be_cached "
            "gpu_worker/test_prefix_cache.py::test_what_was_kept_for_long_enough_goes_also_without_a_request",
        ),
        (
            "contract.body-limit",
            "10 MiB, told from the length",
            "contract/test_bodies.py::test_chunks_past_the_limit_are_refused",
        ),
        ("contract.ids", "one id, time and model through a stream; the model as the client named it"),
        ("contract.seed", "is passed on", "gpu_worker/test_sampling.py::test_small_seeds_are_taken_as_they_are"),
        (
            "contract.no-filter",
            "content_filter is never a reason",
            "contract/test_api_page.py::test_reasons_of_the_end_are_those_of_the_page",
        ),
    ),
    *rows_of(
        "2. Strictness",
        ("strict.types", "JSON types are strict, and the field is named"),
        ("strict.ranges", "every number has its range"),
        ("strict.caps", "two caps that differ are a 400"),
        ("strict.text", "no NUL, no half of a pair, no broken UTF-8"),
        ("strict.content", "null and missing contents are empty; text parts are joined with a line break"),
        ("strict.results", "results of tools with their ids and names"),
        ("strict.arguments", "arguments of earlier calls are decoded for the template"),
        (
            "contract.order",
            "host, route, key, size, JSON, shapes, model, tools, numbers, template, all before the first byte",
            "contract/test_keys.py::test_the_key_comes_after_the_route_and_before_the_body",
        ),
    ),
    *rows_of(
        "3. Codes",
        ("codes.unsupported", "400 for what the engine cannot do: penalties, formats of answers"),
        (
            "codes.memory",
            "memory that runs out in the engine is no crash",
            "contract/test_faults.py::test_a_fault_before_the_stream_is_a_plain_answer "
            "contract/test_faults.py::test_a_fault_in_a_stream_is_one_error_and_the_end",
        ),
        (
            "codes.origin",
            "403 for a page of a foreign origin",
            "contract/test_origins.py::test_a_foreign_page_is_refused",
        ),
        ("codes.method", "405 with Allow", "contract/test_methods.py::test_another_method_is_a_405"),
        (
            "codes.slow",
            "408 for a body that does not come",
            "contract/test_bodies.py::test_a_body_that_does_not_come_is_a_408",
        ),
        ("codes.compressed", "415", "contract/test_bodies.py::test_a_compressed_body_is_refused"),
        ("contract.content-type", "is not checked"),
        (
            "codes.crashed",
            "500, how it died and its last words",
            "contract/test_faults.py::test_a_fault_before_the_stream_is_a_plain_answer",
        ),
        (
            "codes.unresponsive",
            "500 for a worker that hung and was killed",
            "contract/test_faults.py::test_a_worker_that_hangs_is_told",
        ),
        (
            "codes.hung-generation",
            "a generation without progress is ended, and honest work is not",
            "whole/test_hang.py::test_a_worker_that_was_stopped_is_told_within_four_seconds "
            "whole/test_hang.py::test_a_long_call_that_computes_is_not_killed",
        ),
        (
            "codes.unavailable",
            "503 while the breaker of a model is open, with the reason and the time",
            "contract/test_faults.py::test_a_model_whose_loads_keep_failing_is_refused_with_the_reason",
        ),
        (
            "codes.draining",
            "503 for what comes or waits while the server drains",
            "whole/test_life.py::test_drain_lets_a_stream_end_whole_and_refuses_what_is_new "
            "contract/test_queue.py::test_a_drain_refuses_those_who_wait",
        ),
        (
            "codes.stream",
            "the same error as one event, then the end; exactly one",
            "contract/test_faults.py::test_a_fault_in_a_stream_is_one_error_and_the_end",
        ),
    ),
    *rows_of(
        "4. Endpoints",
        ("contract.one-model", "a model by its name; created is stable"),
        (
            "contract.honest-device",
            "CUDA is said only with proof",
            "supervisor/test_cuda_probe.py::test_cuda_is_never_planned_without_a_proof_or_with_a_certain_no",
        ),
        ("contract.health", "state, version, uptime, queue, worker, reason of a fallback"),
        (
            "contract.health-quick",
            "answers whatever goes on",
            "contract/test_bodies.py::test_a_bomb_of_json_holds_nobody_up "
            "contract/test_queue.py::test_health_answers_while_a_model_loads",
        ),
        ("contract.ready", "200 or 503", "contract/test_queue.py::test_a_drain_refuses_those_who_wait"),
        ("contract.openapi", "the API as a document"),
        (
            "contract.unload-ahead",
            "ahead of those who wait, behind the one that runs; the process is gone before the answer",
            "contract/test_queue.py::test_unload_waits_for_the_running_request_and_goes_ahead_of_the_queue",
        ),
        (
            "contract.vram",
            "unload waits for the memory of the GPU and tells how much came back",
            "supervisor/test_admission.py::test_an_unload_waits_until_the_memory_is_back_and_says_so "
            "whole/test_two_servers.py::test_one_without_room_is_told_whom_to_drain_and_loads_after_that",
        ),
        (
            "contract.drain-bound",
            "timeout_ms bounds the wait",
            "whole/test_life.py::test_drain_with_a_bound_cuts_the_stream_with_an_error",
        ),
        (
            "contract.drain-empty",
            "nothing loaded: drained is false, and it exits",
            "whole/test_life.py::test_drain_with_nothing_loaded_exits_too",
        ),
        (
            "contract.holder",
            "who holds the lock or the memory",
            "whole/test_two_servers.py::test_one_who_waits_too_long_is_told_who_loads "
            "whole/test_two_servers.py::test_one_without_room_is_told_whom_to_drain_and_loads_after_that",
        ),
        ("contract.stream-headers", "type, no cache, no buffering, the request's id"),
        ("contract.request-id", "is echoed or made"),
        (
            "contract.pings",
            "a comment in a long silence",
            "whole/test_chat.py::test_pings_fill_a_long_silence "
            "contract/test_connections.py::test_no_pings_when_they_are_switched_off",
        ),
        (
            "contract.same-text",
            "streamed text is the whole text",
            "whole/test_chat.py::test_streamed_text_is_the_whole_text "
            "chat/test_answer.py::test_stream_equals_whole_for_any_split",
        ),
    ),
)
