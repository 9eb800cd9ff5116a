"""Batchscope's library: what the batch size does to training."""
