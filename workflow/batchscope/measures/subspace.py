"""The random subspace of a search for sharpness: x + A y, A normal, n x p."""

from collections.abc import Iterator

import numpy as np

from batchscope.core.errors import UserError

MEMORY = 2048 * 10**6  # bytes of the gradients or columns that are in memory at once
LARGEST_CONDITION = 1e10  # of the Gram matrix: beyond it the box has under 6 sure digits
TILE = 1 << 14  # weights per step of the products in float64: they stay in the cache


def normal_column(size: int, seed: int, index: int) -> np.ndarray:
    """Return column `index` of A: float32 of N(0, 1), shape (size,).

    Unit variance and no normalisation: the only scale that fits the ratios of tables 3 and 4
    of Keskar et al. 2017 (arXiv 1609.04836), which does not state it.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(index,))
    return np.random.default_rng(sequence).standard_normal(size, np.float32)


class Subspace:
    """The matrix A of a random subspace, kept in memory or generated again for each product.

    The columns do not depend on `MEMORY`. Products depend on it by rounding only: they are summed
    in float32, the precision of the weights. The edges of the box are summed in float64.

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
        fit = MEMORY // (4 * size)
        # A generated block needs memory for one more column.
        self.block = dimensions if dimensions <= fit else max(1, fit - 1)
        self._kept = self._make(slice(0, dimensions)) if dimensions <= fit else None

    def _make(self, columns: slice) -> np.ndarray:
        block = np.empty((columns.stop - columns.start, self.size), np.float32)
        for row, index in enumerate(range(columns.start, columns.stop)):
            block[row] = normal_column(self.size, self.seed, index)
        return block

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        for start in range(0, self.dimensions, self.block):
            columns = slice(start, min(start + self.block, self.dimensions))
            yield columns, self._make(columns) if self._kept is None else self._kept

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
        if not condition <= LARGEST_CONDITION:
            raise UserError(
                f"sharpness.dimensions: received {self.dimensions}, which makes the subspace of"
                f" {self.size} weights ill-conditioned ({condition:.1e}); fewer are expected."
            )
        return np.linalg.solve(gram, projection)

    def _gram(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return A^T A and A^T x, summed in float64."""
        gram = np.zeros((self.dimensions, self.dimensions))
        projection = np.zeros(self.dimensions)
        tiles = [slice(start, start + TILE) for start in range(0, self.size, TILE)]
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
