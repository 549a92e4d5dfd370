"""All sources that scenarios can name without an import by the user. To add one, add its file and a line here.

Sources that users import are recorded in the `manifest.json` of their data directory instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from commonweal.data.source_types import BuiltInSource, ExternalSource

# "module of this package:name of its source", in the order of lists and messages.
_ENTRIES = (
    "built_in:MNIST_5K",
    "built_in:UCI_DIGITS",
    "built_in:MNIST5K_PHOTO",
    "built_in:RENDERED_DIGITS",
    "originals.mnist:MNIST",
    "originals.cropped_digits:SVHN",
    "originals.usps:USPS",
    "originals.mnist_m:MNIST_M",
    "originals.cropped_digits:SYNTHDIGITS",
    "originals.cropped_digits:SYNTHDIGITS_REBUILT",
    "originals.cifar10:CIFAR10",
)


def _load(entry: str) -> BuiltInSource | ExternalSource:
    module, _, attribute = entry.partition(":")
    source = getattr(import_module(f"commonweal.data.{module}"), attribute)
    assert isinstance(source, BuiltInSource | ExternalSource), f"{entry} is not a source"
    return source


_SOURCES = [_load(entry) for entry in _ENTRIES]
assert len({source.name for source in _SOURCES}) == len(_SOURCES), "two sources have the same name"

BUILT_IN: Mapping[str, BuiltInSource] = MappingProxyType(
    {source.name: source for source in _SOURCES if isinstance(source, BuiltInSource)}
)
EXTERNAL: Mapping[str, ExternalSource] = MappingProxyType(
    {source.name: source for source in _SOURCES if isinstance(source, ExternalSource)}
)
