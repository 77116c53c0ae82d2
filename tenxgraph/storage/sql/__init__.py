"""The five tables, on SQLite and on PostgreSQL. Dialects differ in `postgres` and `sqlite` only."""
