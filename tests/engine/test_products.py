"""Linear layers by oneDNN: the same products, only while asked for, and with the weights as they are now."""

import copy

import pytest
import torch
from torch import nn

from rag_utils.engine import products


def model(dtype=torch.float32, bias=True):
    torch.manual_seed(0)
    layers = nn.Linear(24, 48, bias=bias), nn.SiLU(), nn.Linear(48, 16, bias=bias)
    return nn.Sequential(*layers).to(dtype).requires_grad_(False)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(24,), (1, 24), (7, 24), (2, 5, 24)])
def test_products_are_those_of_double_precision(bias, shape):
    one, inputs = model(bias=bias), torch.randn(shape)
    with torch.inference_mode():
        exact = copy.deepcopy(one).double()(inputs.double())
        with products.fast_products(one):
            found = one(inputs)
    assert found.shape == exact.shape
    assert torch.allclose(found.double(), exact, atol=1e-6)


def test_a_long_row_is_summed_about_as_well_as_usual():
    torch.manual_seed(1)
    one, inputs = nn.Linear(1536, 576, bias=False).requires_grad_(False), torch.randn(64, 1536)
    with torch.inference_mode():
        exact = inputs.double() @ one.weight.double().T
        usual = (one(inputs) - exact).square().mean().sqrt()
        with products.fast_products(one):
            found = (one(inputs) - exact).square().mean().sqrt()
    assert found < 2 * usual + 1e-7


def test_a_row_is_the_same_whatever_rows_stand_beside_it():
    torch.manual_seed(2)
    one, inputs = nn.Linear(576, 192, bias=False).requires_grad_(False), torch.randn(300, 576)
    with torch.inference_mode(), products.fast_products(one):
        together = one(inputs)
        for first, stop in [(0, 1), (7, 9), (50, 53), (100, 116), (13, 200)]:
            assert torch.equal(one(inputs[first:stop]), together[first:stop])


def test_the_layers_are_their_own_again_afterwards_also_after_an_error():
    one = model()
    with pytest.raises(RuntimeError, match="stop"), products.fast_products(one):
        assert ("forward" in vars(one[0])) == products.possible(one)
        raise RuntimeError("stop")
    assert not any("forward" in vars(layer) for layer in one)


def test_changed_weights_are_laid_out_again():
    one, inputs = model(), torch.randn(3, 24)
    with torch.inference_mode(), products.fast_products(one):
        before = one(inputs)
    one[0].weight.mul_(2)
    with torch.inference_mode():
        plain = one(inputs)
        with products.fast_products(one):
            after = one(inputs)
    assert torch.allclose(after, plain, atol=1e-5)
    assert not torch.allclose(after, before, atol=1e-2)


def test_other_types_and_layers_are_left_alone():
    assert not products.possible(model(torch.float64))

    class Own(nn.Linear):
        def forward(self, inputs):
            return super().forward(inputs) + 1

    one = nn.Sequential(Own(4, 4), nn.Linear(4, 4)).requires_grad_(False)
    inputs = torch.randn(2, 4)
    with torch.inference_mode():
        plain = one(inputs)
        with products.fast_products(one):
            assert torch.allclose(one(inputs), plain, atol=1e-5)
