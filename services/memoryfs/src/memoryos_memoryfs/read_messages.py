"""Read and Explain on the wire: requests to queries, answers to messages."""

from __future__ import annotations

from datetime import timedelta

from memoryos.memoryfs.v1 import memoryfs_pb2 as pb
from memoryos_core.errors import InvalidField
from memoryos_core.paths import MemoryPath

from memoryos_memoryfs.domain.hits import Hit, Recalled
from memoryos_memoryfs.domain.ranking import HALF_LIFE, Boosts
from memoryos_memoryfs.filter_messages import filter_of
from memoryos_memoryfs.messages import instant, item_message
from memoryos_memoryfs.operations.explain_items import Explained, Explanation
from memoryos_memoryfs.operations.recall_steps.query import TOP_K_DEFAULT, ReadQuery


def query_of(request: pb.ReadRequest, deadline_s: float, name: str = "") -> ReadQuery:
    """Give the query of a Read; `name` goes before the names of its fields in errors."""
    named = [(request.path, "path"), *((path, f"paths[{n}]") for n, path in enumerate(request.paths))]
    paths = tuple(dict.fromkeys(MemoryPath.parse(path, field=f"{name}{field}") for path, field in named))
    return ReadQuery(
        paths=paths,
        text=request.query,
        top_k=request.top_k or TOP_K_DEFAULT,
        where=filter_of(request.filter, f"{name}filter"),
        min_score=request.min_score,
        embedding_model=request.embedding.model,
        embedding=request.embedding.values if request.HasField("embedding") else None,
        deadline_s=deadline_s,
        rerank=request.rerank if request.HasField("rerank") else None,
        valid_at=instant(request.valid_at, f"{name}valid_at") if request.HasField("valid_at") else None,
        as_of=instant(request.as_of, f"{name}as_of") if request.HasField("as_of") else None,
        include_cold=request.include_cold,
        boosts=_boosts(request.boosts, f"{name}boosts"),
        diversity=request.diversity,
    )


def _boosts(message: pb.Boosts, name: str) -> Boosts:
    half_life = HALF_LIFE
    if message.HasField("recency_half_life"):
        asked = message.recency_half_life
        if asked.seconds < 0 or asked.nanos < 0 or asked.seconds > timedelta.max.days * 86_400:
            raise InvalidField.of(f"{name}.recency_half_life", "must be above 0 and within 2.7 million years")
        half_life = timedelta(seconds=asked.seconds, microseconds=asked.nanos // 1000)
        if not half_life:
            raise InvalidField.of(f"{name}.recency_half_life", "must be at least a microsecond")
    return Boosts(recency=message.recency, half_life=half_life, importance=message.importance, use=message.use)


def read_response(recalled: Recalled) -> pb.ReadResponse:
    """Give the answer of a Read."""
    return pb.ReadResponse(
        hits=[pb.Hit(item=item_message(hit.item), score=hit.score, details=_details(hit)) for hit in recalled.hits],
        exactness=pb.Exactness.ValueType(recalled.exactness),
        degradations=[pb.Degradation.ValueType(degradation) for degradation in recalled.degradations],
    )


def explain_response(explained: Explained) -> pb.ExplainResponse:
    """Give the answer of Explain."""
    recalled = explained.recalled
    return pb.ExplainResponse(
        explanations=[_explanation(one) for one in explained.explanations],
        exactness=pb.Exactness.ValueType(recalled.exactness),
        degradations=[pb.Degradation.ValueType(degradation) for degradation in recalled.degradations],
        hit_count=len(recalled.hits),
    )


def _explanation(one: Explanation) -> pb.Explanation:
    return pb.Explanation(
        id=one.id,
        verdict=pb.Verdict.ValueType(one.verdict),
        rank=one.rank,
        score=one.scored.score if one.scored else None,
        details=_details(one.scored) if one.scored else None,
    )


def _details(hit: Hit) -> pb.ScoreDetails:
    return pb.ScoreDetails(
        dense=hit.dense,
        lexical=hit.lexical,
        neighbours=hit.beside or None,
        recency=hit.recency,
        importance=hit.importance,
        use=hit.use,
        rerank=hit.rerank,
    )
