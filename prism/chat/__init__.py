"""Text in and out of a chat: templates into a prompt, reasoning, tool calls and stop strings out of the answer."""
