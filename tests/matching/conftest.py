"""Tests of joins share two cores."""

import pytest


@pytest.fixture(autouse=True)
def on_one_thread(one_thread):
    """For all tests of this folder."""
    return one_thread
