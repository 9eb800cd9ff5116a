"""Instruments of timings: clocks, the sampler, counters of the GPU, memory peaks."""
