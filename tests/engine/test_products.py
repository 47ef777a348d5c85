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


class ThreeMLP(nn.Module):
    """Like the wide block of a layer, by its name."""

    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(576, 1536), nn.Linear(576, 1536), nn.Linear(1536, 576)

    def forward(self, inputs):
        return self.down(nn.functional.silu(self.gate(inputs)) * self.up(inputs))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_bfloat16_is_summed_in_float32_and_rounded_once(dtype):
    torch.manual_seed(3)
    one, inputs = nn.Linear(1536, 64, bias=False).to(dtype).requires_grad_(False), torch.randn(9, 1536).to(dtype)
    with torch.inference_mode(), products.fast_products(one):
        assert torch.allclose(one(inputs).double(), inputs.double() @ one.weight.double().T, atol=1e-5, rtol=torch.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", [lambda: nn.Linear(576, 192, bias=False), lambda: nn.Linear(1536, 576), ThreeMLP])
def test_a_row_is_the_same_whatever_rows_stand_beside_it(kind, dtype):
    torch.manual_seed(2)
    one = kind().to(dtype).requires_grad_(False)
    inputs = torch.randn(300, getattr(one, "in_features", 576)).to(dtype)
    with torch.inference_mode(), products.fast_products(one):
        together = one(inputs)
        for first, stop in [*zip(range(300), range(1, 301), strict=True), (7, 9), (50, 53), (100, 116), (13, 200)]:
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
