"""Plain PyTorch modules as models that are sent."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from commonweal.errors import InputError
from commonweal.task.torch_module import load_model, model_of


def make():
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3 * 36, 4))


def test_a_module_survives_the_conversion():
    one, other = make(), make()
    images = torch.randn(16, 1, 8, 8)
    one.train()
    one(images)  # running statistics move
    load_model(other, model_of(one))
    one.eval()
    other.eval()
    assert torch.equal(one(images), other(images))


def test_statistics_are_sent_and_counters_are_not():
    model = model_of(make())
    assert {"1.running_mean", "1.running_var", "0.weight"} <= set(model)
    assert "1.num_batches_tracked" not in model


def test_a_model_is_a_copy():
    module = make()
    model = model_of(module)
    model["0.weight"][:] = 7.0
    assert not (module[0].weight == 7.0).any()


@pytest.mark.parametrize(
    "change", [lambda model: model.pop("0.weight"), lambda model: model.update(new=model["0.bias"])]
)
def test_another_modules_model_is_refused(change):
    model = model_of(make())
    change(model)
    with pytest.raises(InputError, match=r"must have the module's arrays \[.*\], got \["):
        load_model(make(), model)


def test_federations_made_with_version_0_1_still_find_it():
    """Their task.py imports it from here; the names of today are in `commonweal.flower`."""
    import commonweal.flower
    from commonweal.flower import torch_module

    assert (torch_module.load_model, torch_module.model_of) == (load_model, model_of)
    assert (commonweal.flower.load_model, commonweal.flower.model_of) == (load_model, model_of)
    assert commonweal.flower.WorkContext is commonweal.flower.TaskContext
