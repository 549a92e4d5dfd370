"""Where a ledger is: a SQLite file or a PostgreSQL URL, shown without its password."""

from __future__ import annotations

import re
import ssl
from typing import Any

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from commonweal.errors import InputError

_SQLITE_WORDS = {"mode", "uri", "cache", "immutable"}
_SSL_MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")


def url_of(location: str) -> URL:
    """A path or a database URL, as the database driver expects it."""
    if re.match(r"[a-z0-9+]{3,}:(?!//)", location):  # a single letter and a colon would be a drive
        raise _no_location(location)
    if "://" not in location:
        return _with_a_file(URL.create("sqlite", database=location))
    try:
        url = make_url(location)
        backend = url.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise _no_location(location) from None
    if backend == "sqlite":
        _check_words(url, _SQLITE_WORDS)
        return _with_a_file(url)
    if backend not in ("postgresql", "postgres"):
        raise _no_location(location)
    _check_words(url, {"sslmode", "user", "password"})
    return url.set(drivername="postgresql+pg8000")


def shown(location: str) -> str:
    """The location without its password."""
    if "://" not in location:
        return location if not re.match(r"[a-z0-9+]{3,}:", location) else location.partition(":")[0] + ":..."
    try:
        url = make_url(location)
        query = {word: "***" if word == "password" else value for word, value in url.query.items()}
        return url.set(query=query).render_as_string(hide_password=True).replace("postgresql+pg8000", "postgresql")
    except (ArgumentError, ValueError):
        return location.partition("://")[0] + "://..."


def driver_arguments(url: URL) -> tuple[URL, dict[str, Any]]:
    """The driver's URL and further arguments: `sslmode` means what it means in PostgreSQL's own clients."""
    mode = url.query.get("sslmode")
    if mode is None:
        return url, {}
    if mode not in _SSL_MODES:
        raise InputError(f"sslmode must be one of {', '.join(_SSL_MODES)}, got {mode!r}.")
    context: ssl.SSLContext | bool | None = False
    if mode != "disable":
        context = ssl.create_default_context()
        context.check_hostname = mode == "verify-full"
        if mode in ("prefer", "require"):
            context.verify_mode = ssl.CERT_NONE
    if mode == "prefer":
        context = None  # the driver tries TLS, and continues without it
    return url.difference_update_query(["sslmode"]), {"ssl_context": context}


def _with_a_file(url: URL) -> URL:
    if not (url.database or "").strip() or url.database == ":memory:":
        raise InputError(f"A ledger needs a file or database, got {url.database or ''!r}. Name one, such as ledger.db.")
    return url


def _check_words(url: URL, known: set[str]) -> None:
    unknown = sorted(set(url.query) - known)
    if unknown:
        raise InputError(
            f"Unknown parameter {unknown[0]!r} in the ledger's URL; known ones are {', '.join(sorted(known))}."
        )


def _no_location(location: str) -> InputError:
    return InputError(
        f"A ledger is a SQLite file or a SQLite or PostgreSQL URL, got a URL that starts with "
        f"{location.partition(':')[0]!r}. Write ledger.db or postgresql://user@host:5432/name, for example."
    )
