"""From joins to poses, and joint refinement."""
