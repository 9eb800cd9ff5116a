"""The random subspace x + A y of the measure `sharpness`: products with the normal matrix A."""

from collections.abc import Iterator

import numpy as np

from batchscope.core.errors import UserError

MEMORY_BYTES = 2048 * 10**6  # maximum size of the gradients or columns in memory
MAX_CONDITION = 1e10  # a larger one leaves fewer than 6 reliable digits of the box
TILE_WEIGHTS = 1 << 14  # weights per step of the float64 products, which stay in the cache


def normal_column(size: int, seed: int, index: int) -> np.ndarray:
    """Return column `index` of A: float32 of N(0, 1), shape (size,).

    Keskar et al. 2017 (arXiv 1609.04836) do not state the scale. Only unit variance without
    normalisation fits the ratios of their tables 3 and 4.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(index,))
    return np.random.default_rng(sequence).standard_normal(size, np.float32)


class Subspace:
    """The matrix A of a random subspace, stored in memory or generated again for each product.

    The columns do not depend on `MEMORY_BYTES`. Products depend on it only by rounding: they are
    summed in float32, the precision of the weights. The edges of the box are summed in float64.

    Args:
        size: Number of weights, n.
        dimensions: Number of columns, p.

    Raises:
        UserError: If there are fewer weights than columns.
    """

    def __init__(self, size: int, dimensions: int, seed: int = 0) -> None:
        if dimensions > size:
            raise UserError(
                f"sharpness.dimensions: received {dimensions}; at most the number of trainable"
                f" weights, {size}, is expected."
            )
        self.size, self.dimensions, self.seed = size, dimensions, seed
        fit = MEMORY_BYTES // (4 * size)
        # While a block is generated, one more column is in memory.
        self.block = dimensions if dimensions <= fit else max(1, fit - 1)
        self._matrix = self._generate(slice(0, dimensions)) if dimensions <= fit else None

    def _generate(self, columns: slice) -> np.ndarray:
        block = np.empty((columns.stop - columns.start, self.size), np.float32)
        for row, index in enumerate(range(columns.start, columns.stop)):
            block[row] = normal_column(self.size, self.seed, index)
        return block

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        for start in range(0, self.dimensions, self.block):
            columns = slice(start, min(start + self.block, self.dimensions))
            yield columns, self._generate(columns) if self._matrix is None else self._matrix

    def times(self, y: np.ndarray) -> np.ndarray:
        """Return A y, float32 of shape (n,)."""
        result = np.zeros(self.size, np.float32)
        for columns, block in self.blocks():
            result += y[columns].astype(np.float32) @ block
        return result

    def transposed_times(self, vector: np.ndarray) -> np.ndarray:
        """Return the transpose of A times a vector of shape (n,): float64 of shape (p,)."""
        vector = vector.astype(np.float32)
        parts = [block @ vector for _, block in self.blocks()]
        return np.concatenate(parts).astype(np.float64)

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Return A's pseudo-inverse, (A^T A)^-1 A^T, times x."""
        gram, projection = self._gram(x)
        condition = float(np.linalg.cond(gram))
        if not condition <= MAX_CONDITION:
            raise UserError(
                f"sharpness.dimensions: received {self.dimensions}, which makes the subspace of"
                f" {self.size} weights ill-conditioned ({condition:.1e}); fewer are expected."
            )
        return np.linalg.solve(gram, projection)

    def _gram(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return A^T A and A^T x, summed in float64."""
        gram = np.zeros((self.dimensions, self.dimensions))
        projection = np.zeros(self.dimensions)
        tiles = [slice(start, start + TILE_WEIGHTS) for start in range(0, self.size, TILE_WEIGHTS)]
        for columns, block in self.blocks():
            for rows in tiles:
                tile = block[:, rows].astype(np.float64)
                gram[columns, columns] += tile @ tile.T
                projection[columns] += tile @ x[rows]
            for index in range(columns.stop, self.dimensions):
                other = normal_column(self.size, self.seed, index)
                for rows in tiles:
                    tile = block[:, rows].astype(np.float64)
                    gram[columns, index] += tile @ other[rows].astype(np.float64)
                gram[index, columns] = gram[columns, index]
        return gram, projection
