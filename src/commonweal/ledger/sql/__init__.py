"""The store in SQLite and PostgreSQL."""
