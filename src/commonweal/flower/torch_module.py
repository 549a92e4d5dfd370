"""For federations created with version 0.1, which import `load_model` and `model_of` from here."""

from __future__ import annotations

from commonweal.task.torch_module import load_model, model_of

__all__ = ["load_model", "model_of"]
