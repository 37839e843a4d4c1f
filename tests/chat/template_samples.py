"""Chat templates in the manner of the families that are in use, as small as their manner allows."""
# ruff: noqa: E501 (templates are data: a line break in them may be a line break in the prompt)

QWEN3 = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- '# Tools\\n<tools>' }}
    {%- for tool in tools %}{{- '\\n' ~ tool | tojson }}{%- endfor %}
    {{- '\\n</tools>\\nAnswer with <tool_call>{"name": ..., "arguments": ...}</tool_call><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {%- if '</think>' in content %}{%- set content = content.split('</think>')[-1].lstrip('\\n') %}{%- endif %}
        {{- '<|im_start|>assistant\\n' + content }}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}
"""

DEEPSEEK_R1 = """\
{%- set ns = namespace(system='', first=true) -%}
{%- for message in messages -%}{%- if message['role'] == 'system' -%}{%- set ns.system = message['content'] -%}{%- endif -%}{%- endfor -%}
{{- bos_token -}}{{- ns.system -}}
{%- for message in messages -%}
    {%- if message['role'] == 'user' -%}{{- '<｜User｜>' + message['content'] -}}
    {%- elif message['role'] == 'assistant' and message['tool_calls'] -%}
        {{- '<｜Assistant｜><｜tool▁calls▁begin｜>' -}}
        {%- for call in message['tool_calls'] -%}
            {{- '<｜tool▁call▁begin｜>' + call['type'] + '<｜tool▁sep｜>' + call['function']['name'] + '\\n```json\\n' -}}
            {{- call['function']['arguments'] + '\\n```<｜tool▁call▁end｜>' -}}
        {%- endfor -%}
        {{- '<｜tool▁calls▁end｜><｜end▁of▁sentence｜>' -}}
    {%- endif -%}
    {%- if message['role'] == 'assistant' and message['content'] is not none -%}
        {{- '<｜Assistant｜>' + message['content'].split('</think>')[-1] + '<｜end▁of▁sentence｜>' -}}
    {%- elif message['role'] == 'tool' -%}
        {{- '<｜tool▁outputs▁begin｜>' + message['content'] + '<｜tool▁outputs▁end｜>' -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<｜Assistant｜><think>\\n' -}}{%- endif -%}
"""

DEEPSEEK_V31 = """\
{%- if not thinking is defined %}{%- set thinking = false %}{%- endif %}
{{- bos_token }}
{%- for m in messages %}{%- if m.role == 'user' %}{{- '<｜User｜>' + m.content }}
{%- elif m.role == 'assistant' %}{{- '<｜Assistant｜></think>' + m.content + '<｜end▁of▁sentence｜>' }}{%- endif %}{%- endfor %}
{{- '<｜Assistant｜>' }}{{- '<think>' if thinking else '</think>' }}
"""

SMOLLM3 = """\
{%- set thinks = enable_thinking if enable_thinking is defined else true %}
{{- '<|im_start|>system\\nReasoning Mode: ' + ('/think' if thinks else '/no_think') + '\\n' }}
{%- if tools %}{{- '<tools>\\n' }}{%- for tool in tools %}{{- tool | string ~ '\\n' }}{%- endfor %}{{- '</tools><tool_call>' }}{%- endif %}
{{- '<|im_end|>\\n' }}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == 'assistant' %}
        {% generation %}{{- '<|im_start|>assistant\\n' + content.lstrip('\\n') + '<|im_end|>\\n' }}{% endgeneration %}
    {%- elif message.role == 'tool' %}{{- '<|im_start|>user\\n' + content + '<|im_end|>\\n' }}
    {%- else %}{{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' + ('' if thinks else '<think>\\n\\n</think>\\n') }}{%- endif %}
"""

GPT_OSS = """\
{%- macro turn(role, text) -%}{{- '<|start|>' + role + '<|message|>' + text + '<|end|>' }}{%- endmacro -%}
{%- if reasoning_effort is not defined %}{%- set reasoning_effort = 'medium' %}{%- endif %}
{{- turn('system', 'Current date: ' + strftime_now('%Y-%m-%d') + '\\nReasoning: ' + reasoning_effort) }}
{%- if tools %}{{- '<|start|>developer<|message|>' }}{%- for tool in tools %}{{- 'type ' + tool.function.name + ' = (_: ' ~ tool.function.parameters|tojson ~ ')' }}{%- endfor %}{{- '<|end|>' }}{%- endif %}
{%- for m in messages %}
    {%- if m.role == 'developer' or m.role == 'system' %}{{- turn('developer', m.content) }}
    {%- elif m.role == 'assistant' and 'tool_calls' in m %}{{- '<|start|>assistant to=functions.' ~ m.tool_calls[0].function.name ~ '<|channel|>commentary json<|message|>' ~ m.tool_calls[0].function.arguments|tojson ~ '<|call|>' }}
    {%- elif m.role == 'tool' %}{{- '<|start|>functions to=assistant<|channel|>commentary<|message|>' ~ m.content|tojson ~ '<|end|>' }}
    {%- elif m.role == 'assistant' %}{{- '<|start|>assistant<|channel|>final<|message|>' ~ m.content ~ '<|end|>' }}
    {%- else %}{{- turn(m.role, m.content) }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|start|>assistant{%- endif %}
"""

GRANITE = """\
{%- set system = 'You are Granite.' %}
{%- if tools %}{%- set system = system + ' Write <|tool_call|> before a JSON list of calls.' %}{%- endif %}
{%- if thinking %}{%- set system = system + ' Think first.' %}{%- endif %}
{{- '<|start_of_role|>system<|end_of_role|>' + system + '<|end_of_text|>\\n' }}
{%- if tools %}{{- '<|start_of_role|>tools<|end_of_role|>' }}{{- tools | tojson(indent=4) }}{{- '<|end_of_text|>\\n' }}{%- endif %}
{%- for message in messages %}
{{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] + '<|end_of_text|>\\n' }}
    {%- if loop.last and add_generation_prompt %}{{- '<|start_of_role|>assistant<|end_of_role|>' }}{%- endif %}
{%- endfor %}
"""

PHI4_MINI = (
    "{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and message['tools'] is not none %}"
    "{{ '<|system|>' + message['content'] + '<|tool|>' + message['tools'] + '<|/tool|><|end|>' }}"
    "{% else %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}"
)

MISTRAL = """\
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}{%- set system = messages[0]['content'] %}{%- set turns = messages[1:] %}{%- else %}{%- set turns = messages %}{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- set users = turns | selectattr('role', 'equalto', 'user') | list %}
{%- set ns = namespace(index=0) %}
{%- for m in turns %}
    {%- if not (m.role == 'tool' or (m.tool_calls is defined and m.tool_calls is not none)) %}
        {%- if (m['role'] == 'user') != (ns.index % 2 == 0) %}{{- raise_exception('roles must alternate user/assistant') }}{%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{%- for m in turns %}
    {%- if m['role'] == 'user' %}
        {%- if tools is not none and m == users[-1] %}
            {{- '[AVAILABLE_TOOLS] [' }}
            {%- for tool in tools %}
                {%- for key, value in tool.function.items() if key != 'return' %}{{- '"' + key + '": ' + value | tojson + ', ' }}{%- endfor %}
            {%- endfor %}
            {{- '][/AVAILABLE_TOOLS]' }}
        {%- endif %}
        {%- if loop.last and system is defined %}{{- '[INST] ' + system + '\\n\\n' + m['content'] + '[/INST]' }}
        {%- else %}{{- '[INST] ' + m['content'] + '[/INST]' }}{%- endif %}
    {%- elif m.tool_calls is defined %}
        {{- '[TOOL_CALLS] [' }}
        {%- for call in m.tool_calls %}
            {{- (call.function | tojson)[:-1] }}
            {%- if not call.id is defined or call.id | length != 9 %}{{- raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{%- endif %}
            {{- ', "id": "' + call.id + '"}' }}{%- if not loop.last %}{{- ', ' }}{%- endif %}
        {%- endfor %}
        {{- ']' + eos_token }}
    {%- elif m['role'] == 'assistant' %}{{- ' ' + m['content'] | trim + eos_token }}
    {%- elif m['role'] == 'tool' %}
        {%- if not m.tool_call_id is defined or m.tool_call_id | length != 9 %}{{- raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + m.content | string + ', "call_id": "' + m.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}{{- raise_exception('Only user and assistant roles are supported!') }}{%- endif %}
{%- endfor %}
"""

LLAMA31 = """\
{{- bos_token }}
{%- if custom_tools is defined %}{%- set tools = custom_tools %}{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- if messages[0]['role'] == 'system' %}{%- set system = messages[0]['content'] | trim %}{%- set messages = messages[1:] %}{%- else %}{%- set system = '' %}{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: ' + strftime_now('%d %b %Y') + '\\n\\n' + system + '<|eot_id|>' }}
{%- if tools is not none %}
    {%- set first = messages[0]['content'] | trim %}{%- set messages = messages[1:] %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\nRespond in the format {"name": function name, "parameters": dictionary of argument name and its value}.\\n\\n' }}
    {%- for t in tools %}{{- t | tojson(indent=4) + '\\n\\n' }}{%- endfor %}
    {{- first + '<|eot_id|>' }}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}{{- raise_exception('This model only supports single tool-calls at once!') }}{%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + call.name + '", "parameters": ' + call.arguments | tojson + '}<|eot_id|>' }}
    {%- else %}
        {{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' + {'output': message.content} | tojson + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}
"""

LLAMA4 = """\
{{- bos_token }}
{%- if tools is defined and tools %}{{- '<|header_start|>system<|header_end|>\\n\\nAnswer as [func_name1(name1=value1), func_name2()]\\n' + tools | tojson(indent=2) + '<|eot|>' }}{%- endif %}
{%- for m in messages %}{{- '<|header_start|>' + m.role + '<|header_end|>\\n\\n' + m.content | trim + '<|eot|>' }}{%- endfor %}
{{- '<|header_start|>assistant<|header_end|>\\n\\n' }}
"""

GEMMA2 = """\
{{- bos_token }}
{%- for m in messages %}
    {%- if m['role'] == 'system' %}{{- raise_exception('there is no system role') }}{%- endif %}
    {%- if (loop.index0 % 2 == 1) != (m['role'] == 'assistant') %}{{- raise_exception('user and model take turns') }}{%- endif %}
    {{- '<start_of_turn>' + {'assistant': 'model'}.get(m['role'], m['role']) + '\\n' + m['content'] | trim + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<start_of_turn>model\\n' }}{%- endif %}
"""

GEMMA3 = """\
{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}{%- set prefix = messages[0]['content'] + '\\n\\n' -%}{%- set turns = messages[1:] -%}
{%- else -%}{%- set prefix = '' -%}{%- set turns = messages -%}{%- endif -%}
{%- for message in turns -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}{{ raise_exception('Conversation roles must alternate') }}{%- endif -%}
    {{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else message['role']) + '\\n' + (prefix if loop.first else '') }}
    {%- if message['content'] is string -%}{{ message['content'] | trim }}{%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}
"""

QWEN3_CODER = """\
{%- if tools is iterable and tools | length > 0 %}
    {{- '<|im_start|>system\\n<tools>' }}
    {%- for tool in tools %}
        {%- set tool = tool.function if tool.function is defined else tool %}
        {{- '\\n<function>\\n<name>' ~ tool.name ~ '</name>\\n<description>' ~ (tool.description | trim) ~ '</description>' }}
        {%- for name, fields in tool.parameters.properties | items %}{{- '\\n<parameter><name>' ~ name ~ '</name>' ~ (fields | tojson | safe) ~ '</parameter>' }}{%- endfor %}
        {{- '\\n</function>' }}
    {%- endfor %}
    {{- '\\n</tools>\\n<tool_call>\\n<function=name>\\n<parameter=key>\\nvalue\\n</parameter>\\n</function>\\n</tool_call><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'assistant' and message.tool_calls is defined and message.tool_calls | length > 0 %}
        {{- '<|im_start|>assistant' }}
        {%- for call in message.tool_calls %}
            {{- '\\n<tool_call>\\n<function=' + call.function.name + '>\\n' }}
            {%- for name, value in call.function.arguments | items %}{{- '<parameter=' + name + '>\\n' }}{{- value | tojson | safe if value is mapping else value | string }}{{- '\\n</parameter>\\n' }}{%- endfor %}
            {{- '</function>\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- else %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""

COMMAND_R = """\
{{- bos_token }}
{%- for message in messages %}
    {%- if message.role == 'system' %}{{- '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' + message.content + '<|END_OF_TURN_TOKEN|>' }}
    {%- elif message.role == 'user' %}{{- '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + message.content | trim + '<|END_OF_TURN_TOKEN|>' }}
    {%- elif message.role == 'assistant' %}{{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' + message.content | trim + '<|END_OF_TURN_TOKEN|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{%- endif %}
"""
