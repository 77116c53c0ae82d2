"""A state that was written is the state that is read."""

from typing import Any

import pytest
from backends import Backend, Checkpointer
from pydantic import BaseModel, Field
from threads import config, grown, message, present, state, texts

from tenxgraph.core.exceptions import SerializationError
from tenxgraph.core.state import AgentState, ExecutionState, Interrupt, Message
from tenxgraph.storage.checkpointer import SqliteCheckpointer


class Trip(AgentState):
    destination: str = ""
    stops: list[str] = Field(default_factory=list)


class TripOfTomorrow(AgentState):
    destination: str = ""
    stops: list[str] = Field(default_factory=list)
    travellers: int = 1


class TripThatNeedsABudget(AgentState):
    budget: int


class Seat(BaseModel):
    row: int


class Flight(AgentState):
    seat: Seat = Seat(row=1)


async def test_a_state_comes_back_as_it_was_written(checkpointer: Checkpointer) -> None:
    written = AgentState(
        context=[message("hi"), Message.assistant("hello")],
        context_summary="greetings",
        execution_meta=ExecutionState(
            current_node="agent",
            step=3,
            status="interrupted",
            run_id="r1",
            interrupts=[Interrupt(id="i1", node="agent", value={"question": "sure?"})],
            error="none yet",
        ),
    )
    await checkpointer.aput_state(config(), written)
    assert await checkpointer.aget_state(config()) == written


async def test_a_thread_that_is_not_there_has_no_state(checkpointer: Checkpointer) -> None:
    assert await checkpointer.aget_state(config("nowhere")) is None


async def test_a_thread_with_messages_alone_has_no_state(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_messages(config(), [message("hi")])
    assert await checkpointer.aget_state(config()) is None


async def test_the_newest_state_is_read(checkpointer: Checkpointer) -> None:
    for text in ("one", "two", "three"):
        await checkpointer.aput_state(config(), state(text))
    assert texts(await checkpointer.aget_state(config())) == ["three"]


async def test_an_empty_context_is_an_empty_context(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_state(config(), state())
    read = await checkpointer.aget_state(config())
    assert read is not None
    assert read.context == []


async def test_writing_returns_the_state(checkpointer: Checkpointer) -> None:
    written = state("hi")
    assert await checkpointer.aput_state(config(), written) is written


async def test_the_writer_may_go_on_changing_its_state(checkpointer: Checkpointer) -> None:
    written = Trip(context=[message("hi")], stops=["Rome"])
    await checkpointer.aput_state(config(), written)
    written.stops.append("Paris")
    written.context.append(message("more"))
    read = present(await checkpointer.aget_state(config()))
    assert read.stops == ["Rome"]
    assert texts(read) == ["hi"]


async def test_what_one_reader_changes_another_does_not_see(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_state(config(), Trip(stops=["Rome"]))
    first = present(await checkpointer.aget_state(config()))
    first.stops.append("Paris")
    assert present(await checkpointer.aget_state(config())).stops == ["Rome"]


async def test_a_state_of_a_subclass_is_read_as_one(backend: Backend) -> None:
    await backend.make().aput_state(config(), Trip(destination="Rome"))
    reader = backend.make()
    reader.bind_state_type(Trip)
    assert await reader.aget_state(config()) == Trip(destination="Rome")


async def test_without_its_class_a_state_keeps_its_fields(backend: Backend) -> None:
    await backend.make().aput_state(config(), Trip(destination="Rome"))
    plain = backend.make()
    plain.bind_state_type(AgentState)
    read = present(await plain.aget_state(config()))
    assert read.destination == "Rome"


async def test_a_new_field_with_a_default_loads_from_an_old_row(backend: Backend) -> None:
    await backend.make().aput_state(config(), Trip(destination="Rome"))
    tomorrow = backend.make()
    tomorrow.bind_state_type(TripOfTomorrow)
    read = present(await tomorrow.aget_state(config()))
    assert (read.destination, read.travellers) == ("Rome", 1)


async def test_a_field_of_a_newer_class_survives_a_write_by_an_older_one(
    backend: Backend,
) -> None:
    await backend.make().aput_state(config(), TripOfTomorrow(destination="Rome", travellers=4))
    today = backend.make()
    today.bind_state_type(Trip)
    await today.aput_state(config(), await today.aget_state(config()))
    tomorrow = backend.make()
    tomorrow.bind_state_type(TripOfTomorrow)
    assert present(await tomorrow.aget_state(config())).travellers == 4


async def test_a_row_that_no_longer_fits_names_thread_version_and_field(
    backend: Backend,
) -> None:
    old, new = backend.make(), backend.make()
    await old.aput_state(config(), Trip(destination="Rome"))
    new.bind_state_type(TripThatNeedsABudget)
    with pytest.raises(SerializationError, match=r"'t', version 1.*`budget`") as raised:
        await new.aget_state(config())
    assert raised.value.context["thread_id"] == "t"
    assert raised.value.context["version"] == 1


async def test_a_row_that_no_longer_fits_is_in_nobodys_way(backend: Backend) -> None:
    old, new = backend.make(), backend.make()
    new.bind_state_type(TripThatNeedsABudget)
    await new.aput_state(config(), TripThatNeedsABudget(budget=5))
    await old.aput_state(config(), Trip())
    assert present(await new.aget_state(config(), version=1)).budget == 5
    assert [one.version for one in await new.alist_states(config())] == [2, 1]
    assert [one.thread_id for one in await new.alist_threads(config())] == ["t"]
    assert await new.aclean_thread(config())


BROKEN: dict[str, Any] = {
    "a list set to None": lambda s: s.__dict__.update(stops=None),
    "a member of the wrong type": lambda s: s.stops.append(7),
    "a wrong value deep inside": lambda s: s.execution_meta.__dict__.update(step=None),
}


@pytest.mark.parametrize("harm", BROKEN.values(), ids=BROKEN.keys())
async def test_a_state_that_could_not_be_loaded_is_not_saved(
    checkpointer: Checkpointer, harm: Any
) -> None:
    await checkpointer.aput_state(config(), Trip(destination="Rome"))
    broken = Trip(destination="Paris")
    harm(broken)
    with pytest.raises(SerializationError, match=r"state\.(stops|execution_meta)"):
        await checkpointer.aput_state(config(), broken)
    assert present(await checkpointer.aget_state(config())).destination == "Rome"


async def test_a_submodel_set_to_what_it_may_not_be_is_not_saved(
    checkpointer: Checkpointer,
) -> None:
    broken = Flight()
    broken.seat.row = "window"  # type: ignore[assignment]
    with pytest.raises(SerializationError, match=r"state\.seat\.row"):
        await checkpointer.aput_state(config(), broken)
    assert await checkpointer.aget_thread(config()) is None


async def test_what_is_no_state_is_refused(checkpointer: Checkpointer) -> None:
    with pytest.raises(TypeError, match="AgentState"):
        await checkpointer.aput_state(config(), {"context": []})
    assert await checkpointer.aget_thread(config()) is None


async def test_clearing_the_state_keeps_the_messages(checkpointer: Checkpointer) -> None:
    await checkpointer.aput_state(config(), state("hi"))
    await checkpointer.aclear_state(config())
    assert await checkpointer.aget_state(config()) is None
    assert await checkpointer.alist_states(config()) == []
    assert [one.text() for one in await checkpointer.alist_messages(config())] == ["hi"]


async def test_a_cleared_thread_takes_a_new_state(checkpointer: Checkpointer) -> None:
    mine = config()
    await checkpointer.aput_state(mine, state("hi"))
    await checkpointer.aclear_state(mine)
    await checkpointer.aput_state(mine, state("again"))
    assert texts(await checkpointer.aget_state(config())) == ["again"]


async def test_clearing_what_is_not_there_does_nothing(checkpointer: Checkpointer) -> None:
    await checkpointer.aclear_state(config("nowhere"))
    assert await checkpointer.aget_thread(config("nowhere")) is None


async def test_a_cache_holds_what_was_written_or_nothing(checkpointer: Checkpointer) -> None:
    mine = config()
    written = await checkpointer.aput_state(mine, state("hi"))
    await checkpointer.aput_state_cache(mine, written)
    cached = await checkpointer.aget_state_cache(config())
    assert cached is None or texts(cached) == ["hi"]
    assert texts(await checkpointer.aget_state(config())) == ["hi"]


async def test_two_checkpointers_see_the_same_threads(backend: Backend) -> None:
    one, other = backend.make(), backend.make()
    await one.aput_state(config(), state("hi"))
    read = await other.aget_state(mine := config())
    await other.aput_state(mine, grown(read, "there"))
    assert texts(await one.aget_state(config())) == ["hi", "there"]


async def test_closing_one_checkpointer_leaves_the_other_open(backend: Backend) -> None:
    if backend.name.startswith("sqlite-memory"):
        # Such a database is its connection: the other one is a database of its own.
        pair: list[Checkpointer] = [SqliteCheckpointer(":memory:") for _ in range(2)]
        backend.opened += pair
    else:
        pair = [backend.make(), backend.make()]
    one, other = pair
    await one.asetup()
    await other.asetup()
    await other.aput_state(config(), state("hi"))
    await one.aget_state(config())
    await one.aclose()
    assert texts(await other.aget_state(config())) == ["hi"]


async def test_one_context_may_go_to_two_threads(checkpointer: Checkpointer) -> None:
    shared = message("hi")
    for name in ("a", "b", "a"):
        await checkpointer.aput_state(config(name), AgentState(context=[shared]))
    for name in ("a", "b"):
        assert texts(await checkpointer.aget_state(config(name))) == ["hi"]
        assert len(await checkpointer.alist_messages(config(name))) == 1


async def test_a_state_read_from_one_thread_can_be_written_to_another(
    checkpointer: Checkpointer,
) -> None:
    await checkpointer.aput_state(config("a"), state("1", "2"))
    read = present(await checkpointer.aget_state(config("a")))
    there = config("b")
    await checkpointer.aget_state(there)
    await checkpointer.aput_state(there, read)
    assert texts(await checkpointer.aget_state(config("b"))) == ["1", "2"]
    assert texts(await checkpointer.aget_state(config("a"))) == ["1", "2"]


async def test_a_message_twice_in_the_context_is_read_twice_and_listed_once(
    checkpointer: Checkpointer,
) -> None:
    twice = message("hi")
    await checkpointer.aput_state(config(), AgentState(context=[twice, message("x"), twice]))
    assert texts(await checkpointer.aget_state(config())) == ["hi", "x", "hi"]
    assert [one.text() for one in await checkpointer.alist_messages(config())] == ["hi", "x"]


async def test_a_context_can_be_trimmed_reordered_and_grown_at_once(
    checkpointer: Checkpointer,
) -> None:
    mine = config()
    await checkpointer.aput_state(mine, state(*"abcdef"))
    read = present(await checkpointer.aget_state(mine))
    a, b, c, d, _, f = read.context
    read.context = [f, message("new"), a, c, b, d]
    await checkpointer.aput_state(mine, read)
    assert texts(await checkpointer.aget_state(config())) == ["f", "new", "a", "c", "b", "d"]
    assert texts(await checkpointer.aget_state(config(), version=1)) == list("abcdef")
