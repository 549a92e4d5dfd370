from __future__ import annotations

import numpy as np
import pytest
import torch

from commonweal.learning.models import to_tensor


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bytes_become_minus_one_to_one_as_the_fedbn_code_normalises_them(dtype) -> None:
    """ToTensor divides by 255; Normalize(0.5, 0.5) subtracts a half and divides by a half."""
    images = np.arange(256, dtype=np.uint8).reshape(4, 8, 8, 1)
    tensor = to_tensor(images, dtype)
    assert tensor.dtype == dtype
    np.testing.assert_allclose(tensor.numpy(), (images / 255 - 0.5) / 0.5, rtol=0, atol=1e-6)
    assert (float(tensor.min()), float(tensor.max())) == (-1.0, 1.0)
    assert images[0, 0, 1, 0] == 1  # the bytes are as they were
