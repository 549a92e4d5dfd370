"""Readers of published data sets, one file for each format: a pure function from the official files to samples."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from commonweal.bounded_read import check_no_device
from commonweal.errors import CommonwealError, StorageError


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Any error in this block means that the file is not `what`. Libraries raise many kinds of errors on damaged files
    (scipy about ten), so all are translated here.
    """
    try:
        check_no_device(path)
        yield
    except CommonwealError:
        raise
    except OSError as error:
        raise StorageError(_sentence(path, what, error.strerror or str(error))) from None
    except Exception as error:
        raise StorageError(
            _sentence(path, what, (str(error).splitlines() or [""])[0] or type(error).__name__)
        ) from None


def _sentence(path: Path, what: str, reason: str) -> str:
    return f"{path.name} is not {what}: {reason}. Download the official file again."
