"""Errors of the model ports. None carries text of an upstream: it may hold a credential."""

from __future__ import annotations

from memoryos_core.errors import DependencyUnavailable, InternalError, InvalidField, LimitExceeded


class EmbedderBusy(LimitExceeded):
    """The embedder's queue is full, or the work did not finish in its time; try again later."""

    reason = "EMBEDDER_BUSY"


class ModelUnavailable(DependencyUnavailable):
    """The model's endpoint does not answer now: 429, 5xx, lost connection or passed deadline."""


class ModelRejected(InternalError):
    """The model's endpoint refuses the request: a credential, model name or size is wrong."""


class ModelContextExceeded(ModelRejected):
    """The conversation is longer than what the model takes at once: shorten it."""


class ModelNotFound(ModelRejected):
    """The endpoint has no model of that name."""


class ModelReplyInvalid(InternalError):
    """The model's endpoint answered something that is not a whole reply."""


class VectorUnusable(InvalidField):
    """The vector is not finite, is zero, or has another length than the model's."""
