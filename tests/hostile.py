"""Texts that are operators, separators or escapes of some engine: as ids they are names."""

VALUES = (
    # wildcards of Mem0, Redis, SQL, globs and regular expressions
    *("*", "**", "%", "%%", "_", "_____", "?", "?????", "[a-z]*", "a*", "alic_", "al%", "al[i]ce"),
    *("^alice$", ".*", "alice|bob", "(?i)ALICE", "\\w+", "~alice", "alic?"),
    # logic and comparison, as words, keys and JSON
    *("AND", "OR", "NOT", "$eq", "$ne", "eq", "in", "{", "}", '{"$ne": null}', '{"in": ["alice"]}'),
    *('["alice"]', "{alice}", "@user_id:{alice}", "must_not", "user_id == 'alice'"),
    # quotes, escapes and comments of SQL, Lua, JSON and full-text searches
    *("' OR 1=1 --", '" OR "1"="1', "'; DROP TABLE threads; --", "\\", "\\\\", '"', "'", "`", "--"),
    *("redis.call('FLUSHALL')", "]] return 1 --", '"alice" NEAR "bob"', "alice:*", "-alice"),
    # separators of keys, paths and URLs
    *(":", "a:b", "alice:", ":alice", "%3A", "%2A", "%00", "..", ".", "/", "../alice", "a/b", "#"),
    *("alice,bob", "alice;bob", "tenxgraph-id-2a", "state_cache:secret:alice"),
    # what a parser may take for a value of another type
    *("null", "None", "true", "True", "0", "-1", "1e3", "NaN", "undefined", "00000000"),
    # look-alikes of "alice"
    *("Alice", "ALICE", " alice", "alice ", "al ice", "alice\t", "alice\n", "alice\u00a0"),
    *("alice\u200b", "\ufeffalice", "\u202ealice", "\u200falice", "\u0430lice", "\uff41lice"),
    *(
        "al\u0131ce",
        "caf\u00e9",
        "cafe\u0301",
        "\u00df",
        "ss",
        "\U0001f600",
        "\U0001f469\u200d\U0001f680",
    ),
    "x" * 255,
    "\u4e2d" * 255,
)
"""None of them is "alice", whose data all the others are after."""
