import math

import torch

from reassembly.diffusion.attention import attend
from reassembly.diffusion.batch import Layout


def plain_attention(qkv, heads, mask=None):
    """Of one sequence, (L, 3 width) to (L, width)."""
    q, k, v = qkv.chunk(3, -1)
    width = q.shape[-1] // heads
    mixed = []
    for head in range(heads):
        own = slice(head * width, (head + 1) * width)
        logits = q[:, own] @ k[:, own].T / math.sqrt(width)
        if mask is not None:
            logits = logits.masked_fill(~mask, -math.inf)
        mixed.append(logits.softmax(-1) @ v[:, own])
    return torch.cat(mixed, -1)


def test_attention_stays_within_sequences_and_obeys_masks():
    layout = Layout([2, 3, 2, 4], (2, 2), "cpu")
    qkv = torch.randn(11, 24, generator=torch.Generator().manual_seed(0))
    pieces = [plain_attention(part, 2) for part in qkv.split([2, 3, 2, 4])]
    assert torch.allclose(attend(qkv, layout.by_piece, 2), torch.cat(pieces), atol=1e-6)
    # Of the two puzzles, of 5 and 6 tokens, the first is complete and the second a chain.
    chain = torch.eye(6).bool() | torch.ones(6, 6).tril(-1).triu(-1).bool()
    first, second = qkv.split([5, 6])
    expected = [plain_attention(first, 2), plain_attention(second, 2, chain)]
    found = attend(qkv, layout.by_puzzle, 2, [None, chain[None, None]])
    assert torch.allclose(found, torch.cat(expected), atol=1e-6)
