"""A depot of fragments: an index of their outlines and paint, candidates for one piece, objects."""
