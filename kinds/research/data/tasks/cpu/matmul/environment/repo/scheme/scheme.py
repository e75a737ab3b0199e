"""Writes a scheme that multiplies a 4x5 by a 5x6 matrix, a product a line: by the book."""
N, M, K = 4, 5, 6


def products():
    for i in range(N):
        for j in range(M):
            for k in range(K):
                yield {(i, j): 1}, {(j, k): 1}, {(i, k): 1}


def show(products):
    """A product is three sums: of entries of A, of B, and those of C to which it is added."""
    for product in products:
        print(" ; ".join(" ".join(f"{v}*{i},{j}" for (i, j), v in sorted(part.items())) for part in product))


if __name__ == "__main__":
    show(products())
