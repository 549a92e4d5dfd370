"""Truncated and foreign files end in one sentence, whichever library reads them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from commonweal.errors import CommonwealError, InputError


@contextmanager
def refused_unless(path: Path, what: str) -> Iterator[None]:
    """Whatever goes wrong while reading means: this file is not `what`.

    Foreign readers raise anything on damaged input (scipy alone some ten kinds), so all of it is translated here.
    """
    try:
        yield
    except CommonwealError:
        raise
    except OSError as error:
        raise InputError(f"{path.name} must be {what}, got {error.strerror or error}; {_WAY_OUT}") from None
    except Exception as error:
        evidence = (str(error).splitlines() or [""])[0] or type(error).__name__
        raise InputError(f"{path.name} must be {what}, got {evidence}; {_WAY_OUT}") from None


_WAY_OUT = "use the official file, downloaded whole"
