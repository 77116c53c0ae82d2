"""Qdrant's REST protocol over its own in-process engine: as strict as a hosted server is."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from qdrant_client import QdrantClient, models


class QdrantServer:
    """A server for one test.

    Like a hosted one in strict mode, it refuses filters on fields without an index. `down` makes
    it answer 503 to everything.
    """

    def __init__(self, api_key: str | None = None) -> None:
        self.api_key = api_key
        self.down = False
        self.indexes: dict[str, dict[str, Any]] = {}
        self.client = QdrantClient(location=":memory:")
        self.lock = threading.Lock()
        self._listener = _Listener(("127.0.0.1", 0), _handler_for(self))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.server_address[1]}"

    def __enter__(self) -> "QdrantServer":
        threading.Thread(target=self._listener.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown()
        self._listener.server_close()
        self.client.close()

    def answer(self, method: str, path: str, body: Any, key: str | None) -> Any:
        if self.api_key is not None and key != self.api_key:
            raise Refused(403, "Invalid api-key")
        if self.down:
            raise Refused(503, "Service unavailable")
        _, _, collection, *rest = path.split("?")[0].split("/")
        with self.lock:
            try:
                return getattr(self, f"{method.lower()}_{'_'.join(rest) or 'collection'}")(
                    collection, body
                )
            except ValueError as error:
                raise Refused(404 if "not found" in str(error) else 400, str(error)) from error

    def get_exists(self, name: str, _: Any) -> Any:
        return {"exists": self.client.collection_exists(name)}

    def get_collection(self, name: str, _: Any) -> Any:
        info = json.loads(self.client.get_collection(name).model_dump_json())
        info["payload_schema"] = {
            field: {"data_type": "keyword", "points": 0} for field in self.indexes[name]
        }
        return info

    def put_collection(self, name: str, body: Any) -> Any:
        wanted = models.CreateCollection(**body)
        if self.client.collection_exists(name):
            raise Refused(409, f"Wrong input: Collection `{name}` already exists!")
        self.indexes[name] = {}
        return self.client.create_collection(
            name, vectors_config=wanted.vectors, metadata=wanted.metadata
        )

    def put_index(self, name: str, body: Any) -> Any:
        self.indexes[name][body["field_name"]] = body["field_schema"]
        return {"operation_id": 0, "status": "completed"}

    def put_points(self, name: str, body: Any) -> Any:
        points = [models.PointStruct(**point) for point in body["points"]]
        return json.loads(self.client.upsert(name, points).model_dump_json())

    def post_points_query(self, name: str, body: Any) -> Any:
        asked = models.QueryRequest(**body)
        self._check_indexed(name, asked.filter)
        found = self.client.query_points(
            name, query=asked.query, query_filter=asked.filter, limit=asked.limit or 10
        )
        return json.loads(found.model_dump_json())

    def post_points(self, name: str, body: Any) -> Any:
        found = self.client.retrieve(name, body["ids"])
        return [json.loads(point.model_dump_json()) for point in found]

    def post_points_scroll(self, name: str, body: Any) -> Any:
        asked = models.ScrollRequest(**body)
        self._check_indexed(name, asked.filter)
        points, following = self.client.scroll(
            name, scroll_filter=asked.filter, limit=asked.limit or 10, offset=asked.offset
        )
        shown = [json.loads(point.model_dump_json()) for point in points]
        return {"points": shown, "next_page_offset": following}

    def post_points_delete(self, name: str, body: Any) -> Any:
        return json.loads(self.client.delete(name, body["points"]).model_dump_json())

    def _check_indexed(self, name: str, asked: Any) -> None:
        for condition in asked.must or []:
            if condition.key not in self.indexes[name]:
                raise Refused(
                    400, f'Bad request: Index required but not found for "{condition.key}"'
                )


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def _handler_for(server: QdrantServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(length) or b"null")
            key = self.headers.get("api-key")
            try:
                result = server.answer(self.command, self.path, body, key)
                status, reply = 200, {"result": result, "status": "ok", "time": 0.0}
            except Refused as refused:
                status = refused.status
                reply = {"status": {"error": str(refused)}, "time": 0.0}
            data = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST = _serve

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
