"""Texture around keypoints: patches, and the trunk that turns them into features."""
