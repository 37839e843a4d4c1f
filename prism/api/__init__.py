"""The wire types of the HTTP API and their checks. Pure: no I/O, no aiohttp."""
