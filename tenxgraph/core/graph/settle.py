"""Open calls settled, when a thread goes on with something else than their results."""

from tenxgraph.core.graph.calls import Turn, last_turn
from tenxgraph.core.graph.ledger import Asked, Ledger, Outcome
from tenxgraph.core.graph.tool_run import UNKNOWN
from tenxgraph.core.state import AgentState, Message

__all__ = ["NOT_CARRIED_OUT", "settled"]

NOT_CARRIED_OUT = "This call was not carried out: the conversation went on without it."


async def settled(state: AgentState, ledger: Ledger) -> AgentState:
    """The state, where each call of the assistant's last message has its result right after it.

    What the ledger knows is told; for the rest it is told that there is no result, and whether
    the call may have been carried out all the same.
    """
    turn = last_turn(state.context)
    if turn is None or not turn.open:
        return state
    results = [
        known if known is not None else await _result(turn, position, ledger)
        for position, known in enumerate(turn.results)
    ]
    after = state.context[turn.index + 1 :]
    others = [message for message in after if not any(message is one for one in turn.results)]
    context = [*state.context[: turn.index + 1], *results, *others]
    return state.model_copy(update={"context": context})


async def _result(turn: Turn, position: int, ledger: Ledger) -> Message:
    asked = Asked(turn.message.message_id, position, turn.calls[position])
    row = await ledger.find(asked)
    if row is not None and row.status == "started":
        return Outcome(UNKNOWN, is_error=True).message(asked.call)
    known = None if row is None else Outcome.of(row)
    return (known or Outcome(NOT_CARRIED_OUT, is_error=True)).message(asked.call)
