"""What is kept: threads by checkpointers, facts across threads by stores."""

from tenxgraph.storage.checkpointer import create_checkpointer

__all__ = ["create_checkpointer"]
