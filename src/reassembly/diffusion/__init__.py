"""Poses by diffusion: the noise process, the denoiser, and the model that joins all parts."""
