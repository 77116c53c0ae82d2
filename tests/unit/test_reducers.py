"""How an update joins the messages that are there."""

from hypothesis import given
from hypothesis import strategies as st
from threads import message

from tenxgraph.core.state import Message, TextBlock, add_messages, replace


def edited(one: Message, text: str) -> Message:
    return one.model_copy(update={"content": (TextBlock(text=text),)})


def test_new_messages_go_to_the_end() -> None:
    a, b, c = map(message, "abc")
    assert add_messages([a], [b, c]) == [a, b, c]


def test_a_message_of_the_same_id_takes_the_place_of_the_first() -> None:
    a, b, c = map(message, "abc")
    assert add_messages([a, b, c], [edited(b, "B")]) == [a, edited(b, "B"), c]


def test_the_last_of_several_of_one_id_counts() -> None:
    a, b = map(message, "ab")
    update = [b, edited(b, "B"), edited(a, "A")]
    assert add_messages([a], update) == [edited(a, "A"), edited(b, "B")]


def test_one_message_or_a_text_will_do() -> None:
    a = message("a")
    assert add_messages([], a) == [a]
    [said] = add_messages([], "hello")
    assert (said.role, said.text()) == ("user", "hello")


def test_equal_texts_are_two_messages() -> None:
    assert len(add_messages([Message.text_message("yes")], [Message.text_message("yes")])) == 2


def test_nothing_is_changed_in_place() -> None:
    current, update = [message("a")], [message("b")]
    joined = add_messages(current, update)
    assert (len(current), len(update)) == (1, 1)
    assert joined is not current
    assert add_messages(current, []) == current


@given(st.lists(st.sampled_from("abcdef")), st.lists(st.sampled_from("abcdef")))
def test_no_id_is_there_twice_and_the_order_of_first_sight_stays(
    first: list[str], second: list[str]
) -> None:
    joined = add_messages(add_messages([], map(message, first)), map(message, second))
    assert [one.message_id for one in joined] == list(dict.fromkeys(first + second))


def test_replace_takes_the_update() -> None:
    assert replace([1], [2]) == [2]
    assert replace("old", "new") == "new"
