"""Property tests explore anew on every run of a developer, and are the same on every run of CI."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("exploring", deadline=None)
settings.load_profile("steady" if os.environ.get("CI") else "exploring")
