"""The trunk of ResNet18 (He et al., 2016), with the parameter names that its weights go by."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import nn

from reassembly.errors import InputError

__all__ = ["ResNet18", "load_resnet18"]


class _Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or inside != outside:
            self.downsample = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + shortcut)


class ResNet18(nn.Module):
    """ResNet18 up to its penultimate layer.

    State dicts of whole networks load too: the classifier (`fc.*`) is left aside. Half precision
    weights become those of the module's own type.

    Args:
        width: channels of the first stage. 64 is the published network; 32 has about a quarter
            of its weights.
    """

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.dim = 8 * width
        """Length of the features."""
        self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = nn.Sequential(_Block(width, width, 1), _Block(width, width, 1))
        self.layer2 = nn.Sequential(_Block(width, 2 * width, 2), _Block(2 * width, 2 * width, 1))
        self.layer3 = nn.Sequential(
            _Block(2 * width, 4 * width, 2), _Block(4 * width, 4 * width, 1)
        )
        self.layer4 = nn.Sequential(
            _Block(4 * width, 8 * width, 2), _Block(8 * width, 8 * width, 1)
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        self.register_load_state_dict_pre_hook(_without_classifier)  # type: ignore[no-untyped-call]

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Features of images.

        Args:
            images: (N, 3, H, W), normalised as for ImageNet.

        Returns:
            (N, 8 * width), averages over what is left of the image.
        """
        x: torch.Tensor = self.maxpool(torch.relu(self.bn1(self.conv1(images))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return x.mean(dim=(2, 3))


def load_resnet18(path: str | PathLike[str]) -> ResNet18:
    """The trunk whose weights are in a safetensors file, on the CPU, in single precision; its
    width is that of the weights."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = Path(path)
    remedy = "Give a safetensors file with the weights of a ResNet18 in torchvision's names"
    if not path.is_file():
        raise InputError("there is no such file", remedy, path)
    try:
        state = load_file(path)
    except (SafetensorError, OSError) as error:
        raise InputError(f"the weights cannot be read ({error})", remedy, path) from error
    if "conv1.weight" not in state or state["conv1.weight"].dim() != 4:
        raise InputError("these are not the weights of a ResNet18", remedy, path)
    trunk = ResNet18(width=len(state["conv1.weight"]))
    try:
        trunk.load_state_dict(state)
    except RuntimeError as error:
        raise InputError("these are not the weights of a ResNet18", remedy, path) from error
    return trunk


def _without_classifier(_: nn.Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    for key in [key for key in state if key.startswith(f"{prefix}fc.")]:
        del state[key]
