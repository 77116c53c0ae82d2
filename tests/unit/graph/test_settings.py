"""Configs of runs."""

import logging

import pytest
from graphs import chain

from tenxgraph.core.graph.settings import Settings
from tenxgraph.storage.checkpointer import InMemoryCheckpointer
from tenxgraph.storage.config_keys import CONFIG_KEYS


def test_another_librarys_nesting_is_not_taken_for_no_thread_at_all() -> None:
    with pytest.raises(ValueError, match="stand at the top"):
        Settings.of({"configurable": {"thread_id": "t"}})


def test_a_run_without_a_thread_gets_a_new_one() -> None:
    one, other = Settings.of(None), Settings.of({})
    assert one.config["thread_id"] != other.config["thread_id"]
    assert one.config["user_id"] == "anonymous"


def test_a_policy_says_whose_run_it_is() -> None:
    own = Settings.of({"user_id": "victim", "authz": {"user_id": "mallory", "scope": "owner"}})
    assert own.config["user_id"] == "mallory"


@pytest.mark.parametrize(
    "limit",
    [{"lease_timeout": float("inf")}, {"node_timeout": float("nan")}, {"recursion_limit": 0.5}],
)
def test_numbers_that_are_none_are_refused(limit: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be a number"):
        Settings.of(limit)


MISSPELT = {
    "userid": "user_id",
    "userId": "user_id",
    "user": "user_id",
    "user-id": "user_id",
    "usr_id": "user_id",
    "USER_ID": "user_id",
    "thread": "thread_id",
    "threadId": "thread_id",
    "threadid": "thread_id",
    "session_id": "thread_id",
    "conversation_id": "thread_id",
    "tool_timout": "tool_timeout",
    "node_timeouts": "node_timeout",
    "recursion_limits": "recursion_limit",
    "recursionLimit": "recursion_limit",
    "run_ids": "run_id",
    "on_pendng": "on_pending",
    "thread_meta_": "thread_meta",
    "threadname": "thread_name",
    "auth": "authz",
    "agent": "agent_id",
    "value": "values",
}


@pytest.mark.parametrize("key", MISSPELT)
def test_a_misspelt_key_is_refused_with_the_right_name(key: str) -> None:
    with pytest.raises(ValueError, match=f"`{MISSPELT[key]}`"):
        Settings.of({"thread_id": "t", key: "ada"})


def test_a_misspelt_key_is_refused_by_a_checkpointer_before_anything_is_written() -> None:
    kept: InMemoryCheckpointer = InMemoryCheckpointer(enforce_user_isolation=False)
    with pytest.raises(ValueError, match="`thread_name`"):
        kept.put_messages({"thread_id": "t", "threadName": "First steps"}, [])
    assert kept.get_thread({"thread_id": "t"}) is None


@pytest.mark.parametrize("key", sorted(CONFIG_KEYS))
def test_no_known_key_is_taken_for_another_one(key: str, caplog: pytest.LogCaptureFixture) -> None:
    value = {"values": {}, "authz": {"user_id": "u", "scope": "owner"}, "on_pending": "cancel"}
    Settings.of({key: value.get(key, 1)})
    assert not caplog.records


@pytest.mark.parametrize("key", ["locale", "timeout", "tenant", "model", "temperature", "trace"])
def test_an_unknown_key_reaches_the_nodes_and_is_logged_once(
    key: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "tenxgraph.config")
    seen = []

    def look(config: dict[str, str]) -> None:
        seen.append(config[key])

    app = chain(look)
    for _ in range(2):
        app.invoke("hi", {key: "x"})
    assert seen == ["x", "x"]
    (record,) = caplog.records
    assert repr(key) in record.getMessage()
    assert "values" in record.getMessage()


def test_values_are_for_nodes_and_may_have_any_name(caplog: pytest.LogCaptureFixture) -> None:
    seen = []

    def look(config: dict[str, dict[str, str]]) -> None:
        seen.append(config["values"]["userid"])

    chain(look).invoke("hi", {"values": {"userid": "x"}})
    assert seen == ["x"]
    assert not caplog.records
    with pytest.raises(ValueError, match="`values` must be a dict"):
        Settings.of({"values": "x"})


@pytest.mark.parametrize("name", ["user_id", "thread_id"])
def test_an_id_that_is_none_is_not_taken_for_one_that_is_left_out(name: str) -> None:
    with pytest.raises(ValueError, match=f"`{name}` is None"):
        Settings.of({name: None})


def test_a_key_that_is_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match="keys of a config are strings, not 1"):
        Settings.of({1: "x"})  # type: ignore[dict-item]
