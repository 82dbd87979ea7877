"""Names of spans and attributes: one word per idea, content never among them.

GenAI names follow the OpenTelemetry semantic conventions
(https://opentelemetry.io/docs/specs/semconv/gen-ai/); ours are under memoryos.*.
Values are ids, numbers and names of things in files; never what users or tools said.
"""

from __future__ import annotations

from typing import Final

# Span names of an agent's work; the target follows after a space.
INVOKE_AGENT: Final = "invoke_agent"
EXECUTE_TOOL: Final = "execute_tool"
CHAT: Final = "chat"
EMBEDDINGS: Final = "embeddings"

# OpenTelemetry semantic conventions.
ERROR_TYPE: Final = "error.type"
GEN_AI_OPERATION: Final = "gen_ai.operation.name"
GEN_AI_AGENT: Final = "gen_ai.agent.name"
GEN_AI_TOOL: Final = "gen_ai.tool.name"
GEN_AI_TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
GEN_AI_REQUEST_MODEL: Final = "gen_ai.request.model"
GEN_AI_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
GEN_AI_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
RPC_SYSTEM: Final = "rpc.system"
RPC_SERVICE: Final = "rpc.service"
RPC_METHOD: Final = "rpc.method"
RPC_GRPC_STATUS_CODE: Final = "rpc.grpc.status_code"
HTTP_STATUS_CODE: Final = "http.response.status_code"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"

# Memory OS.
ACTION_DIGEST: Final = "memoryos.action_digest"
ATTEMPT: Final = "memoryos.attempt"
BUNDLE_REVISION: Final = "memoryos.bundle_revision"
CALL_ID: Final = "memoryos.call_id"
CALLER_SERVICE: Final = "memoryos.caller_service"
DECISION: Final = "memoryos.decision"
DECISION_ID: Final = "memoryos.decision_id"
EFFECT_STATE: Final = "memoryos.effect_state"
EXACTNESS: Final = "memoryos.exactness"
HITS: Final = "memoryos.hits"
ITEMS: Final = "memoryos.items"
LEASE_EPOCH: Final = "memoryos.lease_epoch"
REVIEW_ID: Final = "memoryos.review_id"
SESSION_ID: Final = "memoryos.session_id"
SKILL: Final = "memoryos.skill"
STEP_ID: Final = "memoryos.step_id"
TASK_ID: Final = "memoryos.task_id"
TASK_STATE: Final = "memoryos.task_state"

KEY_IDS: Final = (
    TASK_ID,
    STEP_ID,
    CALL_ID,
    DECISION_ID,
    REVIEW_ID,
    SESSION_ID,
    DECISION,
    EFFECT_STATE,
    SKILL,
    LEASE_EPOCH,
    ATTEMPT,
    HITS,
    ITEMS,
    EXACTNESS,
)
"""Attributes that a trace in the terminal shows, in this order."""
