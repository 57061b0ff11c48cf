"""How much is read at once."""

LARGE_BYTES = 64 * 2**20  # files together that are larger are read in parts
ROWS_A_FRAME = 500_000
