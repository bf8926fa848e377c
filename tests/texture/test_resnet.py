from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from reassembly.errors import InputError
from reassembly.texture.resnet import ResNet18, load_resnet18

WEIGHTS = (
    Path(__file__).resolve().parents[2].parent
    / "shared"
    / "weights"
    / "resnet18_imagenet_approx.safetensors"
)


def expected_keys() -> set[str]:
    """The names of torchvision's ResNet18 without its classifier."""

    def norm(name: str) -> list[str]:
        parts = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
        return [f"{name}.{part}" for part in parts]

    keys = ["conv1.weight", *norm("bn1")]
    for stage in (1, 2, 3, 4):
        for block in (0, 1):
            at = f"layer{stage}.{block}"
            for k in (1, 2):
                keys += [f"{at}.conv{k}.weight", *norm(f"{at}.bn{k}")]
            if stage > 1 and block == 0:
                keys += [f"{at}.downsample.0.weight", *norm(f"{at}.downsample.1")]
    return set(keys)


def test_parameters_are_named_and_sized_as_published():
    state = ResNet18().state_dict()
    assert set(state) == expected_keys()
    assert state["conv1.weight"].shape == (64, 3, 7, 7)
    assert state["layer2.0.downsample.0.weight"].shape == (128, 64, 1, 1)
    assert state["layer4.1.conv2.weight"].shape == (512, 512, 3, 3)
    # 11,689,512 parameters with the classifier of 512 x 1000 weights and 1000 biases.
    assert sum(p.numel() for p in ResNet18().parameters()) == 11_689_512 - 513_000


@pytest.mark.parametrize(("width", "side"), [(64, 224), (16, 64), (8, 32)])
def test_features_have_eight_times_the_width(width, side):
    torch.manual_seed(0)
    trunk = ResNet18(width).eval()
    with torch.no_grad():
        features = trunk(torch.randn(2, 3, side, side))
    assert features.shape == (2, 8 * width) == (2, trunk.dim)
    assert (features >= 0).all() and features.std() > 0


def test_the_output_is_that_of_the_published_layout():
    """The same weights through a plain transcription of the published network."""
    torch.manual_seed(1)
    trunk = ResNet18(8).eval()
    state = trunk.state_dict()
    for key in state:
        if key.endswith(("running_mean", "bias")):
            state[key].normal_(0, 0.1)
    f = torch.nn.functional

    def conv_norm(x: torch.Tensor, conv: str, norm: str, stride: int) -> torch.Tensor:
        weight = state[f"{conv}.weight"]
        x = f.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
        statistics = (state[f"{norm}.running_mean"], state[f"{norm}.running_var"])
        return f.batch_norm(x, *statistics, state[f"{norm}.weight"], state[f"{norm}.bias"])

    images = torch.randn(2, 3, 64, 64)
    x = f.max_pool2d(f.relu(conv_norm(images, "conv1", "bn1", 2)), 3, 2, 1)
    for stage in (1, 2, 3, 4):
        for block in (0, 1):
            at = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            y = f.relu(conv_norm(x, f"{at}.conv1", f"{at}.bn1", stride))
            y = conv_norm(y, f"{at}.conv2", f"{at}.bn2", 1)
            if stride == 2:
                x = conv_norm(x, f"{at}.downsample.0", f"{at}.downsample.1", 2)
            x = f.relu(x + y)
    with torch.no_grad():
        torch.testing.assert_close(trunk(images), x.mean(dim=(2, 3)))


def test_a_classifier_in_the_weights_is_left_aside_and_nothing_else_is():
    trunk = ResNet18(8)
    state = dict(ResNet18(8).state_dict())
    state |= {"fc.weight": torch.zeros(10, 64), "fc.bias": torch.zeros(10)}
    trunk.load_state_dict(state)
    assert torch.equal(trunk.conv1.weight, state["conv1.weight"])
    assert "fc.bias" in state
    torch.nn.Sequential(trunk).load_state_dict({f"0.{k}": v for k, v in state.items()})
    with pytest.raises(RuntimeError, match="head"):
        trunk.load_state_dict(state | {"head.weight": torch.zeros(1)})
    del state["layer3.1.conv2.weight"]
    with pytest.raises(RuntimeError, match=r"layer3\.1\.conv2"):
        trunk.load_state_dict(state)


def test_half_precision_weights_load_in_single_precision(tmp_path):
    trunk = ResNet18(8)
    save_file({k: v.half() for k, v in trunk.state_dict().items()}, tmp_path / "half.safetensors")
    loaded = load_resnet18(tmp_path / "half.safetensors")
    assert loaded.dim == 64
    assert {p.dtype for p in loaded.parameters()} == {torch.float32}
    torch.testing.assert_close(loaded.conv1.weight, trunk.conv1.weight, atol=1e-3, rtol=1e-3)


def test_files_that_are_no_weights_are_refused_in_one_line(tmp_path):
    for name, content in [("absent", None), ("broken", b"not weights"), ("other", {})]:
        path = tmp_path / f"{name}.safetensors"
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif content is not None:
            save_file({"linear.weight": torch.zeros(2, 2)}, path)
        with pytest.raises(InputError) as error:
            load_resnet18(path)
        assert name in str(error.value) and "\n" not in str(error.value)


def test_the_imagenet_stand_in_loads_strictly_and_tells_pictures_apart():
    if not WEIGHTS.is_file():
        pytest.skip("the ResNet18 weights are not beside the repository")
    assert set(load_file(WEIGHTS)) == expected_keys()
    trunk = load_resnet18(WEIGHTS).eval()
    rows = torch.sin(torch.arange(64.0) / 2)
    stripes = rows.expand(3, 64, 64)
    blank = torch.zeros(3, 64, 64)
    with torch.no_grad():
        a, b, c = trunk(torch.stack([stripes, stripes * 0.9, blank]))
    assert torch.isfinite(a).all()
    similar = torch.nn.functional.cosine_similarity
    assert similar(a, b, dim=0) > 0.9 > similar(a, c, dim=0)
