"""Messages, the blocks they are made of, and the state of a thread."""

from tenxgraph import _other_names
from tenxgraph.core.state.agent_state import AgentState, ExecutionState, Interrupt, RunStatus
from tenxgraph.core.state.blocks import (
    AudioBlock,
    ContentBlock,
    DataBlock,
    DocumentBlock,
    ErrorBlock,
    ImageBlock,
    ReasoningBlock,
    TextBlock,
    ToolCall,
    ToolCallBlock,
    ToolResultBlock,
    UnknownBlock,
)
from tenxgraph.core.state.message import Message, Role, TokenUsages
from tenxgraph.core.state.reducers import add_messages, replace
from tenxgraph.core.state.registry import register_type

__all__ = [
    "AgentState",
    "AudioBlock",
    "ContentBlock",
    "DataBlock",
    "DocumentBlock",
    "ErrorBlock",
    "ExecutionState",
    "ImageBlock",
    "Interrupt",
    "Message",
    "ReasoningBlock",
    "Role",
    "RunStatus",
    "TextBlock",
    "TokenUsages",
    "ToolCall",
    "ToolCallBlock",
    "ToolResultBlock",
    "UnknownBlock",
    "add_messages",
    "register_type",
    "replace",
]

_other_names.explain_imports(__name__)
