"""Images as a network takes them."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def to_tensor(images: NDArray[np.uint8], dtype: torch.dtype) -> Tensor:
    """Grey or colour values 0..255 as −1..1, as in the FedBN code; (sample, height, width, channel)."""
    return torch.from_numpy(images).to(dtype).div_(127.5).sub_(1.0)
