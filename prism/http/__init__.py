"""OpenAI-compatible HTTP on aiohttp: routes, error envelope, event streams."""
