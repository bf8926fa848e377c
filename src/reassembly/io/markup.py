"""What SVG and HTML files have in common: templates, safe text, pictures inside the file."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["data_uri", "decimal", "fixed", "share", "template", "xml_text"]

FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML file may hold, not even escaped."""


def template(name: str) -> Template:
    """A template of this package; it escapes every value, and a missing one is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("reassembly.io"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template(name)


def data_uri(data: bytes, kind: str) -> str:
    """A picture (`kind` png or webp) as an address that holds it."""
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"


def xml_text(text: str) -> str:
    """The text without characters that XML does not allow; escaping is left to the template."""
    return FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def decimal(value: float, decimals: int) -> str:
    """A number without exponent, needless zeros or a lonely minus sign."""
    text = f"{value:.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def fixed(value: float) -> str:
    """With one decimal, and no minus before a zero."""
    return f"{round(value, 1) + 0.0:.1f}"


def share(value: float) -> str:
    """With two decimals; what is nearly certain does not read as certain."""
    text = f"{value:.2f}"
    if text == "1.00" and value < 1:
        return "> 0.99"
    return "< 0.01" if text == "0.00" and value > 0 else text
