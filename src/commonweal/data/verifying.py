"""Do the files of a data directory match their manifests?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from commonweal.data.manifest import read_manifest
from commonweal.data.sources import list_sources, load_source
from commonweal.errors import CommonwealError


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Sources whose files were read and are as recorded, and sentences about all that is not."""

    sound: tuple[str, ...]
    findings: tuple[str, ...]


def verify(directory: Path) -> Verification:
    """Read every file in full. A missing prepared copy is no finding; a missing file that was imported is one."""
    recorded = read_manifest(directory)
    listed = [status for status in list_sources(directory) if status.kind != "built-in"]
    sound, findings = [], []
    for status in listed:
        if status.state == "missing":
            if status.name in recorded:
                findings.append(f"{status.name}: {recorded[status.name].file} is in the manifest, but missing")
            continue
        try:
            samples = load_source(status.name, directory)
        except CommonwealError as error:
            findings.append(f"{status.name}: {error}")
            continue
        if (len(samples.labels), samples.image_shape) != (status.sample_count, status.image_shape):
            findings.append(f"{status.name}: the manifest's sample count or image shape is not the file's")
        else:
            sound.append(status.name)
    strangers = sorted({path.name for path in directory.glob("*.npz")} - {status.file for status in listed})
    findings += [f"{name}: in no manifest; bring it in with `commonweal data import`" for name in strangers]
    return Verification(sound=tuple(sound), findings=tuple(findings))
