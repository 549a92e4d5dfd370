"""Published distributions of the originals -> samples. Each converter is a pure function of the files' contents."""

from commonweal.data.official.convert import convert

__all__ = ["convert"]
