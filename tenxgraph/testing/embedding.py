"""An embedding for tests: no model, no network, the same vectors on every machine."""

import hashlib
import math
import re
from collections.abc import Iterator, Sequence

from tenxgraph.storage.store.embedding.base import BaseEmbedding, checked_texts

__all__ = ["HashEmbedding"]

_WORD = re.compile(r"\w+")
_LETTERS_WEIGHT = 0.2


class HashEmbedding(BaseEmbedding):
    """Texts that share words are near, and texts that share letters a little.

    It knows nothing of meaning: "car" and "automobile" are strangers to it. No two vectors have a
    negative cosine.

    Args:
        dimension: the length of a vector.
    """

    def __init__(self, dimension: int = 256) -> None:
        if dimension < 1:
            raise ValueError(f"`dimension` must be at least 1, not {dimension}.")
        self._dimension = dimension

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return self._dimension

    async def aembed(self, text: str) -> list[float]:
        """The vector of one text, of length 1."""
        return self.vector(text)

    async def aembed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of several texts, in their order."""
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> list[float]:
        """What `aembed` returns, without waiting. `ValueError` if the text is blank."""
        checked_texts([text])
        numbers = [0.0] * self._dimension
        for feature, weight in _features(text):
            digest = hashlib.blake2b(feature.encode(errors="replace"), digest_size=8).digest()
            numbers[int.from_bytes(digest) % self._dimension] += weight
        norm = math.sqrt(sum(number * number for number in numbers))
        return [number / norm for number in numbers]


def _features(text: str) -> Iterator[tuple[str, float]]:
    words = _WORD.findall(text.lower())
    if not words:
        yield text, 1.0
    for word in words:
        yield word, 1.0
        for start in range(len(word) - 2):
            yield f"#{word[start : start + 3]}", _LETTERS_WEIGHT
