"""What every embedding promises."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from tenxgraph._sync import closing_twin, sync_twin

__all__ = ["BaseEmbedding", "checked_texts"]


class BaseEmbedding(ABC):
    """Turns texts into vectors of one length; texts of like meaning get vectors that are near.

    A subclass says its `dimension` and overrides `aembed`, or `aembed_batch` if its service takes
    several texts at once, or both. Every method may be called from any event loop.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        single, batch = BaseEmbedding.aembed, BaseEmbedding.aembed_batch
        if cls.aembed is single and cls.aembed_batch is batch:
            raise TypeError(f"{cls.__name__} must override `aembed` or `aembed_batch`.")

    @property
    @abstractmethod
    def dimension(self) -> int:
        """How many numbers a vector has; the same for the whole life of this object."""

    @property
    def model(self) -> str:
        """Names the vector space. Vectors of two names are never compared with one another."""
        return type(self).__name__

    async def aembed(self, text: str) -> list[float]:
        """The vector of one text. `ValueError` if the text is blank."""
        return (await self.aembed_batch([text]))[0]

    async def aembed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of several texts, in their order."""
        return [await self.aembed(text) for text in texts]

    async def adimension(self) -> int:
        """The dimension, for embeddings that must ask a service to learn it."""
        return self.dimension

    async def aclose(self) -> None:
        """Give back what this object holds open; it may be used again afterwards."""
        return

    embed = sync_twin(aembed)
    embed_batch = sync_twin(aembed_batch)
    close = closing_twin(aclose)


def checked_texts(texts: Sequence[str]) -> None:
    """`ValueError` if one of the texts is blank, which embedding services refuse or guess at."""
    for index, text in enumerate(texts):
        if not text.strip():
            raise ValueError(f"Text {index} of {len(texts)} is blank and has no meaning to embed.")
