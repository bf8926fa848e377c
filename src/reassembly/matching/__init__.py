"""Proposing and verifying joins."""
