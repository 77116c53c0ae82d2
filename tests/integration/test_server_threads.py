"""Threads over HTTP: whose they are, and what can be done with them."""

import json
from typing import Any

import pytest
from backends import Backend
from graphs import chain, on_durable
from serving import ALICE, BOB, by_header, echo, serving

from tenxgraph.storage.checkpointer import InMemoryCheckpointer


async def say(client: Any, text: str, thread_id: str = "t", **headers: Any) -> Any:
    body = {"messages": text, "config": {"thread_id": thread_id}}
    return await client.post("/v1/graph/invoke", json=body, headers=headers or ALICE)


@on_durable
async def test_knowing_a_thread_id_is_not_enough(backend: Backend) -> None:
    app = chain(echo, checkpointer=backend.make())
    async with serving(app, auth=by_header) as client:
        assert (await say(client, "my secret")).status_code == 200
        (message, _) = (await client.get("/v1/threads/t/messages", headers=ALICE)).json()["items"]
        before = (await client.get("/v1/threads/t/state", headers=ALICE)).text
        mid = message["message_id"]
        attempts = [
            ("GET", "/v1/threads/t", None),
            ("GET", "/v1/threads/t/state", None),
            ("GET", "/v1/threads/t/state?version=1", None),
            ("GET", "/v1/threads/t/states", None),
            ("GET", "/v1/threads/t/messages", None),
            ("GET", f"/v1/threads/t/messages/{mid}", None),
            ("PUT", "/v1/threads/t", {"thread_name": "mine"}),
            ("DELETE", f"/v1/threads/t/messages/{mid}", None),
            ("DELETE", "/v1/threads/t", None),
            ("POST", "/v1/threads/t/fork", {}),
            ("POST", "/v1/graph/stop", {"thread_id": "t"}),
            ("POST", "/v1/graph/invoke", {"messages": "hi", "config": {"thread_id": "t"}}),
        ]
        for method, path, body in attempts:
            theirs = await client.request(method, path, json=body, headers=BOB)
            assert theirs.status_code == 404, (method, path, theirs.text)
            assert "secret" not in theirs.text
        assert (await client.get("/v1/threads", headers=BOB)).json()["items"] == []
        assert (await client.get("/v1/threads/t/state", headers=ALICE)).text == before


async def test_somebody_elses_and_nobodys_thread_look_alike() -> None:
    async with serving(chain(echo), auth=by_header) as client:
        await say(client, "hi")
        for path in ("", "/state", "/states", "/messages", "/messages/m"):
            theirs = await client.get(f"/v1/threads/t{path}", headers=BOB)
            nobodys = await client.get(f"/v1/threads/nowhere{path}", headers=BOB)
            told = [{**one.json(), "request_id": "any"} for one in (theirs, nobodys)]
            assert told[0] == told[1]
            assert theirs.status_code == nobodys.status_code == 404


@on_durable
async def test_threads_are_named_found_and_paged(backend: Backend) -> None:
    async with serving(chain(echo, checkpointer=backend.make())) as client:
        for number in range(5):
            fields = {"thread_name": f"Chat {number}", "metadata": {"plan": "pro", "n": number}}
            made = await client.put(f"/v1/threads/t{number}", json=fields)
            assert made.json()["metadata"] == fields["metadata"]
        names, cursor = [], None
        for size in (2, 2, 1):
            params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
            page = (await client.get("/v1/threads", params=params)).json()
            assert len(page["items"]) == size
            names += [one["thread_name"] for one in page["items"]]
            cursor = page["cursor"]
        assert cursor is None
        assert sorted(names) == [f"Chat {n}" for n in range(5)]
        found = await client.get("/v1/threads", params={"metadata": json.dumps({"n": 3})})
        assert [one["thread_id"] for one in found.json()["items"]] == ["t3"]
        found = await client.get("/v1/threads", params={"search": "Chat 4"})
        assert [one["thread_id"] for one in found.json()["items"]] == ["t4"]
        for path in ("/state?version=-1", f"/state?version={10**30}", f"/states?before={10**30}"):
            assert (await client.get(f"/v1/threads/t0{path}")).status_code == 422
        assert (await client.get("/v1/threads/%20")).status_code == 422
        for bad in ({"metadata": "[1]"}, {"metadata": "{"}, {"limit": 0}, {"cursor": "x"}):
            answer = await client.get("/v1/threads", params=bad)
            assert answer.status_code == 422, (bad, answer.text)


@on_durable
async def test_a_thread_is_read_forked_and_deleted(backend: Backend) -> None:
    checkpointer = backend.make()
    async with serving(chain(echo, checkpointer=checkpointer)) as client:
        for text in ("one", "two"):
            await client.post(
                "/v1/graph/invoke", json={"messages": text, "config": {"thread_id": "t"}}
            )
        versions = (await client.get("/v1/threads/t/states")).json()
        assert [one["version"] for one in versions] == [4, 3, 2, 1]
        page = (await client.get("/v1/threads/t/messages?limit=3")).json()
        rest = (await client.get(f"/v1/threads/t/messages?cursor={page['cursor']}")).json()
        texts = [one["content"][0]["text"] for one in page["items"] + rest["items"]]
        assert texts == ["one", "You said: one", "two", "You said: two"]
        assert rest["cursor"] is None
        last = (await client.get("/v1/threads/t/messages?last=1")).json()["items"]
        assert last == rest["items"]

        forked = await client.post("/v1/threads/t/fork", json={"thread_id": "f", "version": 2})
        assert (forked.status_code, forked.json()["thread_id"]) == (201, "f")
        assert len((await client.get("/v1/threads/f/messages")).json()["items"]) == 2
        assert (await client.post("/v1/threads/t/fork", json={})).status_code == 201
        taken = await client.post("/v1/threads/t/fork", json={"thread_id": "f"})
        assert (taken.status_code, taken.json()["code"]) == (409, "thread_exists")
        assert (await client.post("/v1/threads/t/fork", json={"version": 99})).status_code == 404

        mid = last[0]["message_id"]
        answer = await client.delete(f"/v1/threads/t/messages/{mid}")
        assert (answer.status_code, answer.json()["code"]) == (422, "bad_input")
        mid = (
            rest["items"][0]["message_id"]
            if len(rest["items"]) > 1
            else page["items"][0]["message_id"]
        )
        assert (await client.delete(f"/v1/threads/t/messages/{mid}")).status_code == 204
        assert (await client.get(f"/v1/threads/t/messages/{mid}")).status_code == 404
        assert (await client.delete("/v1/threads/t")).status_code == 204
        assert (await client.delete("/v1/threads/t")).status_code == 404
        assert (await client.get("/v1/threads/t/state")).status_code == 404


async def test_shared_threads_are_for_those_who_say_so() -> None:
    checkpointer: InMemoryCheckpointer[Any] = InMemoryCheckpointer()
    app = chain(echo, checkpointer=checkpointer)
    async with serving(app, auth=by_header, authorization="allow_all") as client:
        await say(client, "hi")
        assert (await client.get("/v1/threads/t/state", headers=BOB)).status_code == 200
        again = await client.post(
            "/v1/graph/invoke",
            json={"messages": "bob here", "config": {"thread_id": "t"}},
            headers=BOB,
        )
        assert again.status_code == 200
    info = await checkpointer.aget_thread({"user_id": "alice", "thread_id": "t"})
    assert info is not None
    assert info.user_id == "alice", "its first user's it stays"


@pytest.mark.parametrize("style", ["sync", "async", "class"])
async def test_an_authorization_of_ones_own_decides(style: str) -> None:
    seen: list[tuple[str, str, str | None]] = []

    def rule(user: Any, action: Any, resource_id: str | None) -> Any:
        seen.append((user.user_id, action, resource_id))
        if action == "threads:delete":
            return False
        return "none" if user.user_id == "auditor" else "owner"

    async def async_rule(user: Any, action: Any, resource_id: str | None) -> Any:
        return rule(user, action, resource_id)

    class Rule:
        def __call__(self, *given: Any) -> Any:
            return rule(*given)

    chosen: Any = {"sync": rule, "async": async_rule, "class": Rule}[style]
    async with serving(chain(echo), auth=by_header, authorization=chosen) as client:
        await say(client, "hi")
        assert (await client.delete("/v1/threads/t", headers=ALICE)).status_code == 403
        assert (await client.get("/v1/threads/t", headers=BOB)).status_code == 404
        assert (await client.get("/v1/threads/t", headers={"x-user": "auditor"})).status_code == 200
        await client.post("/v1/threads/t/fork", json={"thread_id": "new"}, headers=ALICE)
        await client.post("/v1/graph/stop", json={"thread_id": "t"}, headers=ALICE)
        assert seen[-3:] == [
            ("alice", "threads:read", "t"),
            ("alice", "threads:write", "new"),
            ("alice", "graph:stop", "t"),
        ]
    assert seen[:2] == [("alice", "graph:run", "t"), ("alice", "threads:delete", "t")]
