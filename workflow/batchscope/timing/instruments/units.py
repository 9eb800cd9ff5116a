"""Units of memory, in bytes."""

MEGABYTE = 10**6
KIBIBYTE = 2**10
