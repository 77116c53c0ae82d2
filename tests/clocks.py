"""A machine's clock that is wrong, as far as the library goes."""

import sys
from datetime import datetime, timedelta
from typing import Any


def put_wrong(seconds: float) -> None:
    """Let every module of the library that is loaded by now read the time with an error."""

    class Wrong(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + timedelta(seconds=seconds)

    for name, module in list(sys.modules.items()):
        if name.startswith("tenxgraph") and getattr(module, "datetime", None) is datetime:
            module.datetime = Wrong  # type: ignore[attr-defined]
