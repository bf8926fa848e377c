import numpy as np
import pytest
import torch

from reassembly.texture.encoder import TextureEncoder, normalise
from reassembly.texture.resnet import ResNet18


@pytest.fixture
def encoder() -> TextureEncoder:
    torch.manual_seed(0)
    encoder = TextureEncoder(ResNet18(8), input_px=64)
    with torch.no_grad():
        for name, buffer in encoder.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_(0, 0.1)
    return encoder


def patches(count: int, side: int = 32, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    made = rng.integers(0, 256, (count, side, side, 4), np.uint8)
    made[..., 3] = np.where(np.arange(side) > side // 3, 255, 0)[None, :, None]
    return made


def test_normalisation_is_imagenets_inside_and_zero_outside():
    white = np.full((1, 4, 4, 4), 255, np.uint8)
    white[0, :2, :, 3] = 0
    images = normalise(torch.from_numpy(white))
    assert images.shape == (1, 3, 4, 4)
    assert (images[:, :, :2] == 0).all()
    inside = images[0, :, 2:].mean(dim=(1, 2)).tolist()
    assert inside == pytest.approx([2.2489, 2.4286, 2.64], abs=1e-3)


def test_what_lies_outside_the_mask_does_not_matter(encoder):
    one, other = patches(3), patches(3, seed=1)
    inside = one[..., 3:] > 0
    other = np.where(inside, one, other)
    other[..., 3] = one[..., 3]
    assert torch.equal(encoder.encode(one), encoder.encode(other))
    assert not torch.equal(encoder.encode(one), encoder.encode(patches(3, seed=1)))


def test_features_do_not_depend_on_the_batch(encoder):
    many = patches(13)
    features = encoder.encode(many)
    assert features.shape == (13, 64) and features.dtype == torch.float32
    assert not features.requires_grad
    torch.testing.assert_close(encoder.encode(many, batch=4), features, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(encoder.encode(many[7:8]), features[7:8], rtol=1e-4, atol=1e-5)
    assert torch.equal(encoder.encode(torch.from_numpy(many)), features)
    assert encoder.encode(many[:0]).shape == (0, 64)


def test_encoding_changes_neither_mode_nor_statistics(encoder):
    encoder.train()
    before = {k: v.clone() for k, v in encoder.state_dict().items()}
    first = encoder.encode(patches(4))
    assert encoder.training
    assert all(torch.equal(v, before[k]) for k, v in encoder.state_dict().items())
    assert torch.equal(encoder.encode(patches(4)), first)


def test_forward_has_gradients_to_the_first_layer(encoder):
    encoder(torch.from_numpy(patches(4))).square().sum().backward()
    gradient = encoder.trunk.conv1.weight.grad
    assert gradient is not None and gradient.abs().sum() > 0


def test_patches_are_resized_smoothly_to_the_input_size():
    class Mean(torch.nn.Module):
        dim = 3

        def __init__(self) -> None:
            super().__init__()
            self.one = torch.nn.Parameter(torch.ones(1))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            assert images.shape[-2:] == (224, 224)
            return images.mean(dim=(2, 3)) * self.one

    encoder = TextureEncoder(Mean(), input_px=224)
    made = patches(5)
    made[..., 3] = 255
    expected = normalise(torch.from_numpy(made)).mean(dim=(2, 3))
    torch.testing.assert_close(encoder.encode(made), expected, atol=0.02, rtol=0)


def test_a_half_precision_trunk_works_on_the_cpu():
    torch.manual_seed(0)
    trunk = ResNet18(8)
    single = TextureEncoder(ResNet18(8))
    single.trunk.load_state_dict(trunk.state_dict())
    half = TextureEncoder(trunk.half())
    made = patches(3)
    torch.testing.assert_close(half.encode(made), single.encode(made), atol=0.05, rtol=0.05)
