"""Pages and folders of results without drawings, which take longer than a small run and all the words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

EMPTY = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"/>'


@contextmanager
def without_drawings() -> Iterator[None]:
    """Pages have empty drawings, and the files of plots are empty."""
    from commonweal.report import inline_svg, write

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inline_svg, "rendered", lambda *_, **__: EMPTY)
        patch.setattr(write, "rendered_as", lambda kinds, *_, **__: [b"" for _ in kinds])
        yield
