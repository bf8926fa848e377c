"""What a Roman wall painter needs: plaster, pigments, ornaments, and two thousand years."""
