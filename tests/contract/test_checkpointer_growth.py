"""What a thread costs grows with what is said in it, not with how often it is saved."""

from backends import Backend, Checkpointer
from threads import config, present, state

from tenxgraph.core.state import AgentState, Message


async def size(checkpointer: Checkpointer, kind: str = "") -> int:
    """How many bytes the thread's rows of a kind take as JSON, as its export shows them."""
    lines = [line async for line in checkpointer.aexport_thread(config())]
    return sum(len(line) for line in lines if f'"kind":"{kind}' in line)


async def talk(checkpointer: Checkpointer, turns: int) -> None:
    mine = config()
    read = await checkpointer.aget_state(mine) or AgentState()
    for _ in range(turns):
        read.context.append(Message.text_message("x" * 1_000))
        await checkpointer.aput_state(mine, read)


async def test_a_message_is_kept_once_however_many_states_show_it(
    checkpointer: Checkpointer,
) -> None:
    await talk(checkpointer, 30)
    assert await size(checkpointer) < 2 * 30 * 1_000


async def test_states_do_not_grow_with_the_conversation(checkpointer: Checkpointer) -> None:
    await talk(checkpointer, 20)
    early = await size(checkpointer, "state")
    await talk(checkpointer, 40)
    assert await size(checkpointer, "state") < 1.1 * early


async def test_a_trimmed_context_stays_small_as_well(checkpointer: Checkpointer) -> None:
    mine = config()
    await talk(checkpointer, 5)
    for _ in range(30):
        read = present(await checkpointer.aget_state(mine))
        read.context = [*read.context[1:], Message.text_message("x" * 1_000)]
        await checkpointer.aput_state(mine, read)
    assert await size(checkpointer, "state") < 20 * 600


async def test_saving_again_and_again_costs_nothing_in_the_end(backend: Backend) -> None:
    checkpointer = backend.make(state_history_limit=3)
    for _ in range(3):
        await checkpointer.aput_state(config(), state("a", "b"))
    before = await size(checkpointer)
    for _ in range(30):
        await checkpointer.aput_state(config(), state("a", "b"))
    assert await size(checkpointer) <= before + 10  # the version got a digit longer
