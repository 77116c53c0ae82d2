"""Embeddings: what turns a text into the vector by which it is found."""

from tenxgraph.storage.store.embedding.base import BaseEmbedding
from tenxgraph.storage.store.embedding.openai import OpenAIEmbedding
from tenxgraph.storage.store.embedding.wordllama import WordLlamaEmbedding

__all__ = ["BaseEmbedding", "OpenAIEmbedding", "WordLlamaEmbedding"]
