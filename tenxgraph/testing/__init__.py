"""Doubles for your own tests, which need no network and no key."""

from tenxgraph.testing.embedding import HashEmbedding
from tenxgraph.testing.model import ModelRequest, ScriptedModel
from tenxgraph.testing.openai_protocol import ServerError, VerbatimAnswer, VerbatimStream
from tenxgraph.testing.openai_server import OpenAIServer, RecordedRequest
from tenxgraph.testing.provider_rules import broken_rules

__all__ = [
    "HashEmbedding",
    "ModelRequest",
    "OpenAIServer",
    "RecordedRequest",
    "ScriptedModel",
    "ServerError",
    "VerbatimAnswer",
    "VerbatimStream",
    "broken_rules",
]
