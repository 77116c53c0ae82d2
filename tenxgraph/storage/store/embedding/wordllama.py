"""Embeddings by meaning without a network, a key or a GPU."""

import asyncio
import functools
import logging
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tenxgraph._optional import require
from tenxgraph.core.state.unicode import valid_text
from tenxgraph.storage.store.embedding.base import BaseEmbedding, checked_texts

__all__ = ["WordLlamaEmbedding"]

_DIMENSION = 256


class WordLlamaEmbedding(BaseEmbedding):
    """Embeds with WordLlama, whose model of word vectors is part of its package.

    It knows that a car is an automobile, takes about a millisecond a text, and needs numpy and a
    tokenizer, but no deep-learning framework. It is blind to the order of words, so "dog bites man"
    and "man bites dog" are the same to it. Meant for trying things out and for small offline
    applications.

    Raises:
        ImportError: the package `wordllama` is not installed.
    """

    def __init__(self) -> None:
        _package()

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return _DIMENSION

    @property
    def model(self) -> str:
        """The model's name."""
        return "wordllama-l2-supercat-256"

    async def aembed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of several texts, in their order. `ValueError` if one is blank."""
        checked_texts(texts)
        return await asyncio.to_thread(_embed, [valid_text(text) for text in texts])


def _embed(texts: list[str]) -> list[list[float]]:
    vectors: list[list[float]] = _model().embed(texts, norm=True).tolist() if texts else []
    return vectors


@functools.cache
def _model() -> Any:
    wordllama = _package()
    # The tokenizer lies in the package too, but is only found there if the folder is named.
    folder = Path(str(wordllama.__file__)).parent
    return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)


def _package() -> ModuleType:
    # Its import sets up the logging of the whole application, which is not its business.
    root = logging.getLogger()
    level, handlers = root.level, root.handlers.copy()
    try:
        return require("wordllama", extra="local", wanted_by="WordLlamaEmbedding")
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
