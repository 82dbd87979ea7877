"""What a run is compared with, and what it must reach."""

from __future__ import annotations

BM25_LINES = {
    "longmemeval_s_lite": (0.738, 0.903),
    "bfcl_memory": (0.938, 0.975),
    "madial_zh": (0.515, 0.606),
    "madial_en": (0.482, 0.635),
    "kdconv_travel": (0.229, 0.302),
    "memorybank_zh": (0.914, 1.0),
    "memorybank_en": (0.882, 1.0),
}
"""R@5 and R@10 of BM25 alone (k1 1.2, b 0.75; English stemmed without stop words, Chinese character pairs).

memorybank is by day (session), each day one text; kdconv asks with the last three messages.
"""

BARS = {
    "longmemeval_s_lite": 0.87,
    "madial_zh": 0.62,
    "madial_en": 0.65,
    "bfcl_memory": 0.96,
    "kdconv_travel": 0.27,
    "memorybank_zh": 0.93,
    "memorybank_en": 0.93,
}
"""Least R@5 of the default embedder, on every backend; docs/reference/recall.md says what reaches it."""
