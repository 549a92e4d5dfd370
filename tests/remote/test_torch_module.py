"""Plain PyTorch modules as models that are sent."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from commonweal.errors import InputError
from commonweal.task.torch_module import load_model, model_of, score_gradient


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


def true_class_probabilities(module, images, labels):
    return module(images).softmax(1).gather(1, labels[:, None])[:, 0]


def test_the_gradient_of_the_mean_score_by_differences():
    """Every array, with the statistics of batch normalisation; in double precision."""
    torch.manual_seed(1)
    module = nn.Sequential(make(), nn.ReLU(inplace=True), nn.BatchNorm1d(4)).double()
    images, labels = torch.randn(9, 1, 8, 8).double(), torch.randint(4, (9,))
    module.train()
    module(images)  # running statistics move
    gradient = score_gradient(module, lambda: true_class_probabilities(module, images, labels))
    assert module.training
    assert set(gradient) == set(model_of(module))
    module.eval()
    step = 1e-6
    for name, tensor in module.state_dict(keep_vars=False).items():
        if not tensor.is_floating_point():
            continue
        flat = tensor.view(-1)
        for entry in range(0, len(flat), 7):
            means = []
            for sign in (1, -1):
                with torch.no_grad():
                    flat[entry] += sign * step
                    means.append(true_class_probabilities(module, images, labels).mean().item())
                    flat[entry] -= sign * step
            slope = (means[0] - means[1]) / (2 * step)
            assert gradient[name].reshape(-1)[entry] == pytest.approx(slope, abs=1e-8), (name, entry)


def test_what_has_no_effect_has_no_gradient():
    module = nn.ModuleDict({"used": nn.Linear(2, 2), "unused": nn.Linear(2, 2)})
    gradient = score_gradient(module, lambda: module["used"](torch.ones(3, 2))[:, 0])
    assert gradient["used.weight"].any()
    assert not gradient["unused.weight"].any()


def test_normalisation_without_scale_and_shift_is_refused():
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, affine=False))
    with pytest.raises(InputError, match="'1' needs batch normalisation with affine=True"):
        score_gradient(module, lambda: module(torch.ones(3, 2))[:, 0])
