"""What a request may share with earlier ones: told by its key and by its fields. Used by the endpoints that generate."""

from aiohttp import hdrs, web

from ipc.messages import PrefixReuse
from prism.api.generation_fields import GenerationFields, cache_key, cache_ttl_s
from prism.http.services import SERVICES


def prefix_reuse(request: web.Request, fields: GenerationFields) -> PrefixReuse:
    """Return it for one request. The key itself stays here."""
    scope = request.app[SERVICES].scopes.scope_of(request.headers.get(hdrs.AUTHORIZATION))
    return PrefixReuse(scope=scope, conversation=cache_key(fields), ttl_s=cache_ttl_s(fields))
