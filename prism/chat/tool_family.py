"""The ways in which models write a call of a tool. Chosen from the model's chat template, used to read its answers."""

from enum import StrEnum


class ToolFamily(StrEnum):
    """One convention of call markup, named after the models that brought it up."""

    HERMES = "hermes"  # <tool_call>{json}</tool_call>; Qwen 2.5 and 3, Hermes, Granite 4
    PHI4_MINI = "phi4_mini"  # <|tool_call|>[json]<|/tool_call|>
    MISTRAL = "mistral"  # [TOOL_CALLS][json], later [TOOL_CALLS]name[ARGS]{json}
    LLAMA3_JSON = "llama3_json"  # <|python_tag|>{json}, bare JSON, <function=name>{json}</function>
    LLAMA4_PYTHONIC = "llama4_pythonic"  # [name(argument=value), ...]
    QWEN3_CODER_XML = (
        "qwen3_coder_xml"  # <tool_call><function=name><parameter=key>value</parameter></function></tool_call>
    )
    DEEPSEEK = "deepseek"  # <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>name<｜tool▁sep｜>{json}<｜tool▁call▁end｜>...
    UNKNOWN = "unknown"  # the template takes tools, but shows none of the above; every convention is tried
