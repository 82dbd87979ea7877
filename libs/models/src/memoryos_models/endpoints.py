"""Chat endpoints: how each is reached and what it can do. The file that names them is checked strictly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from memoryos_core.config import ConfigError, SecretFile
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from memoryos_models.config import ModelsSection

DEFAULT_ENDPOINT: Final = "default"
_FILE_BYTES_MAX: Final = 262_144
ToolMode = Literal["native", "schema", "text"]
ResponseFormat = Literal["json_schema", "none"]


class Endpoint(BaseModel):
    """One chat endpoint."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    name: str = Field(
        pattern=r"^[a-z][a-z0-9_.-]{0,63}$", description="What agents call it in `model` and `fallback_models`."
    )
    url: str = Field(
        pattern=r"^https?://[^\s]+$", max_length=1024, description="Base address, e.g. http://host:8000/v1."
    )
    model: str | None = Field(min_length=1, max_length=128, description="Name of the model there.")
    key_file: Annotated[SecretFile | None, Field(description="File with its API key.")] = None
    tools: ToolMode = Field(
        default="native",
        description="native: the endpoint makes tool calls; schema: it holds the model to a JSON Schema of one action; "
        "text: the model writes calls as JSON into its text.",
    )
    response_format: ResponseFormat = Field(
        default="json_schema",
        description="json_schema: structured replies are asked for with response_format; none: in words, and parsed.",
    )
    stream: bool = Field(default=True, description="Whether replies are streamed.")
    context_tokens: int | None = Field(
        default=None, ge=256, le=100_000_000, description="Tokens that the model takes at once, the reply included."
    )
    output_tokens_max: int | None = Field(
        default=None, ge=1, le=1_000_000, description="Longest reply, where a request names no limit."
    )
    temperature: float | None = Field(default=None, ge=0, le=2, description="Used where a request names none.")


class EndpointsFile(BaseModel):
    """The file that `models.endpoints_file` names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoints: tuple[Endpoint, ...] = Field(min_length=1, max_length=64, description="The endpoints, by name.")

    @field_validator("endpoints")
    @classmethod
    def _named_once(cls, endpoints: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        names = [endpoint.name for endpoint in endpoints]
        if len(set(names)) != len(names):
            raise ValueError("two endpoints have one name")
        if DEFAULT_ENDPOINT in names:
            raise ValueError(f"{DEFAULT_ENDPOINT} is the endpoint of models.chat_url")
        if any(endpoint.model is None for endpoint in endpoints):
            raise ValueError("every endpoint names its model")
        return endpoints


def load_endpoints(section: ModelsSection) -> tuple[Endpoint, ...]:
    """Give every configured endpoint, the default one first; raises ConfigError naming the place of a mistake."""
    found: list[Endpoint] = []
    if section.chat_url:
        found.append(
            Endpoint(
                name=DEFAULT_ENDPOINT,
                url=section.chat_url,
                model=section.chat_model,
                key_file=section.chat_key_file,
                tools=section.chat_tools,
                response_format=section.chat_response_format,
                stream=section.chat_stream,
                context_tokens=section.chat_context_tokens,
                output_tokens_max=section.chat_output_tokens_max,
                temperature=section.chat_temperature,
            )
        )
    if section.endpoints_file:
        found += read_endpoints(section.endpoints_file).endpoints
    return tuple(found)


def read_endpoints(path: Path) -> EndpointsFile:
    """Give what a file of endpoints says, or raise ConfigError."""
    try:
        raw = path.read_bytes()
        if len(raw) > _FILE_BYTES_MAX:
            raise ConfigError(f"{path} has more than {_FILE_BYTES_MAX} bytes")
        return EndpointsFile.model_validate(yaml.safe_load(raw))
    except OSError as error:
        raise ConfigError(f"endpoints file {path}: {error.strerror}") from None
    except yaml.YAMLError:
        raise ConfigError(f"endpoints file {path} is no YAML") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"endpoints file {path}: {where}: {first['msg']}") from None


def endpoints_schema_text() -> str:
    """Give the text of libs/models/schemas/endpoints.schema.json (JSON Schema 2020-12)."""
    schema: dict[str, Any] = EndpointsFile.model_json_schema()
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Endpoints file of Memory OS"}
    return json.dumps({**schema, **head}, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
