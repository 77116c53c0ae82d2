"""Pauses: a state that waits for answers, and the nodes at which a run is to wait."""

from tenxgraph.core.graph.interrupts import interrupt_id
from tenxgraph.core.graph.plan import Plan
from tenxgraph.core.state import AgentState, Interrupt
from tenxgraph.core.state.agent_state import StateT

__all__ = ["before", "paused", "planned"]


def paused(state: StateT, interrupts: tuple[Interrupt, ...]) -> StateT:
    """The state, waiting for answers; the same state where there are no questions."""
    if not interrupts:
        return state
    meta = state.execution_meta.model_copy(
        update={"status": "interrupted", "interrupts": list(interrupts)}
    )
    return state.model_copy(update={"execution_meta": meta})


def planned(plan: Plan, node: str, following: str, state: AgentState) -> tuple[Interrupt, ...]:
    """The pause that the graph sets between a node and the one that follows."""
    if node in plan.interrupt_after:
        return (_at(node, "after", state),)
    return before(plan, following, state)


def before(plan: Plan, node: str, state: AgentState) -> tuple[Interrupt, ...]:
    """The pause that the graph sets before a node."""
    if node not in plan.interrupt_before:
        return ()
    return (_at(node, "before", state),)


def _at(node: str, side: str, state: AgentState) -> Interrupt:
    meta = state.execution_meta
    return Interrupt(id=interrupt_id(meta.interrupt_token, side, node, meta.step), node=node)
