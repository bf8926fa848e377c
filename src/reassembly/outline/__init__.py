"""From mask to contour."""
