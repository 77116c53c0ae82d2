"""Doubles for your own tests, which need no network and no key."""

from tenxgraph.testing.embedding import HashEmbedding
from tenxgraph.testing.openai_protocol import ServerError
from tenxgraph.testing.openai_server import OpenAIServer, RecordedRequest

__all__ = ["HashEmbedding", "OpenAIServer", "RecordedRequest", "ServerError"]
