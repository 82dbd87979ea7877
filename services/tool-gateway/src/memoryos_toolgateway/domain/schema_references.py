"""References of schemas: inside the document, to the meta-schema, or to documents given along; never fetched.

A registry without a retriever raises for everything else, so no address in a
schema leads to a file or a host.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Final

from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing import Registry, Resource
from referencing.exceptions import NoSuchResource, Unresolvable
from referencing.jsonschema import DRAFT202012

from memoryos_toolgateway.domain.schema_keywords import subschemas

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_META: Final = "https://json-schema.org/draft/2020-12/"
Resolver = Any
"""referencing's, whose class is private."""


def registry_of(documents: Mapping[str, Any]) -> Registry[Any]:
    """Give the registry of what may be referred to outside a schema."""
    meta = [(uri, resource) for uri, resource in REGISTRY.items() if uri.startswith(_META)]
    given = [(uri, DRAFT202012.create_resource(document)) for uri, document in documents.items()]
    return Registry().with_resources([*meta, *given]).crawl()


@functools.cache
def meta_schemas() -> tuple[Any, ...]:
    """Give the documents of the 2020-12 meta-schema, which refer to each other."""
    return tuple(REGISTRY[uri].contents for uri in REGISTRY if uri.startswith(_META))


def root_resolver(schema: Any, documents: Mapping[str, Any]) -> Resolver:
    """Give the resolver at the top of a schema."""
    return registry_of(documents).resolver_with_root(resource_of(schema))


def resource_of(schema: Any) -> Resource[Any]:
    """Give a schema as a resource of 2020-12, whatever it says of its dialect."""
    return DRAFT202012.create_resource(schema)


def inside(resolver: Resolver, schema: Any) -> Resolver:
    """Give the resolver within a subschema, which may have an $id of its own."""
    return resolver.in_subresource(resource_of(schema))


def target(resolver: Resolver, reference: str) -> Any:
    """Give what a reference leads to, or raise LookupError."""
    try:
        return resolver.lookup(reference).contents
    except (Unresolvable, NoSuchResource, ValueError, AttributeError, TypeError):
        raise LookupError(reference) from None


def every_schema(documents: Mapping[str, Any]) -> Iterator[Any]:
    """Give each schema in the given documents and in the meta-schema."""
    pending = [*documents.values(), *meta_schemas()]
    while pending:
        here = pending.pop()
        yield here
        if isinstance(here, dict):
            pending.extend(inner for _, _, inner in subschemas(here))
