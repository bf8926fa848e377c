"""Choosing the keypoints that speak for a piece."""
