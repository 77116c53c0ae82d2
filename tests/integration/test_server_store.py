"""The long-term memory over HTTP: each caller's own, and no one else's."""

from typing import Any

import pytest
from graphs import chain
from serving import ALICE, BOB, by_header, echo, serving

from tenxgraph.core.exceptions import StoreError
from tenxgraph.storage.store import InMemoryStore
from tenxgraph.testing import HashEmbedding


async def test_memories_are_kept_found_changed_and_forgotten() -> None:
    store = InMemoryStore(HashEmbedding())
    async with serving(chain(echo, store=store), auth=by_header) as client:
        fields = {
            "content": "likes tea",
            "memory_key": "drink",
            "category": "taste",
            "metadata": {"source": "form"},
        }
        made = await client.post("/v1/store/memories", json=fields, headers=ALICE)
        assert made.status_code == 201
        memory_id = made.json()["id"]
        await client.post("/v1/store/memories", json={"content": "has a dog"}, headers=ALICE)
        found = await client.post("/v1/store/search", json={"query": "tea"}, headers=ALICE)
        assert found.json()[0]["content"] == "likes tea"
        assert found.json()[0]["score"] > 0.5
        changed = await client.patch(
            f"/v1/store/memories/{memory_id}", json={"content": "likes milk"}, headers=ALICE
        )
        assert changed.status_code == 204
        one = (await client.get(f"/v1/store/memories/{memory_id}", headers=ALICE)).json()
        assert (one["content"], one["metadata"]) == ("likes milk", {"source": "form"})
        assert one["created_at"] < one["updated_at"]
        page = (await client.get("/v1/store/memories?limit=1", headers=ALICE)).json()
        rest = await client.get(f"/v1/store/memories?cursor={page['cursor']}", headers=ALICE)
        assert len(page["items"]) + len(rest.json()["items"]) == 2

        for method, path, body in (
            ("GET", f"/v1/store/memories/{memory_id}", None),
            ("PATCH", f"/v1/store/memories/{memory_id}", {"content": "bob's"}),
            ("DELETE", f"/v1/store/memories/{memory_id}", None),
        ):
            answer = await client.request(method, path, json=body, headers=BOB)
            assert answer.status_code == 404
        everything = {"query": "likes milk", "score_threshold": 0}
        assert (await client.post("/v1/store/search", json=everything, headers=BOB)).json() == []
        assert (await client.post("/v1/store/forget", json={}, headers=BOB)).json() == {
            "forgotten": 0
        }

        gone = await client.delete(f"/v1/store/memories/{memory_id}", headers=ALICE)
        assert gone.status_code == 204
        assert (await client.post("/v1/store/forget", json={}, headers=ALICE)).json() == {
            "forgotten": 1
        }


async def test_what_all_users_share_is_not_a_clients_to_write_or_read() -> None:
    store = InMemoryStore(HashEmbedding())
    await store.astore({"agent_id": "sales"}, "the margin is 40 %")
    async with serving(chain(echo, store=store), auth=by_header) as client:
        body = {"content": "the margin is 0 %", "agent_id": "sales"}
        assert (
            await client.post("/v1/store/memories", json=body, headers=ALICE)
        ).status_code == 201
        body = {"query": "margin", "agent_id": "sales"}
        found = await client.post("/v1/store/search", json=body, headers=ALICE)
        assert [one["content"] for one in found.json()] == ["the margin is 0 %"]
        assert len(await store.aget_all({"agent_id": "sales"})) == 1
        body = {"query": "margin", "user_id": "bob"}
        answer = await client.post("/v1/store/search", json=body, headers=ALICE)
        assert answer.status_code == 422


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("memories", {"content": " "}, "content"),
        ("memories", {"content": "x", "metadata": [1]}, "metadata"),
        ("search", {"query": ""}, "query"),
        ("search", {"query": "x", "limit": 0}, "limit"),
        ("search", {"query": "x", "limit": 10**9}, "limit"),
        ("search", {"query": "x", "score_threshold": 2}, "score_threshold"),
        ("search", {"query": "x", "filters": {"nowhere": 1}}, "nowhere"),
        ("search", {"query": "x", "agent_id": None}, "agent_id"),
        ("search", {"query": "x", "app_id": " "}, "app_id"),
        ("memories", {"content": "x", "app_id": None}, "app_id"),
        ("memories", {"content": "x", "agent_id": ""}, "agent_id"),
    ],
)
async def test_bad_input_is_named(path: str, body: dict[str, Any], told: str) -> None:
    async with serving(chain(echo, store=InMemoryStore(HashEmbedding()))) as client:
        answer = await client.post(f"/v1/store/{path}", json=body)
        assert answer.status_code == 422
        assert told in answer.json()["detail"]


async def test_a_store_that_is_away_or_not_there_is_said_to_be() -> None:
    class Away(HashEmbedding):
        async def aembed_batch(self, texts: Any) -> Any:
            raise StoreError("The embedding at 10.0.0.7 is unavailable.")

    async with serving(chain(echo, store=InMemoryStore(Away()))) as client:
        answer = await client.post("/v1/store/search", json={"query": "x"})
        assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
        assert "10.0.0.7" not in answer.text
    async with serving(chain(echo)) as client:
        answer = await client.post("/v1/store/search", json={"query": "x"})
        assert answer.status_code == 404
        assert "no long-term memory" in answer.json()["detail"]
