"""What a timing reads from: clocks, samplers, counters, traces, peaks."""
