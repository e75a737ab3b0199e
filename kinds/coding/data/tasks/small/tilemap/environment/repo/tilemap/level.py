"""A rectangle of tiles."""

NAMES = {0: "air", 10: "grass", 13: "rock", 26: "water", 200: "lava"}


class Level:
    """rows is a list of bytes objects of the same length, one byte a tile."""

    def __init__(self, rows):
        if len({len(row) for row in rows}) > 1:
            raise ValueError("rows differ in length")
        self.rows = [bytes(row) for row in rows]

    @property
    def width(self):
        return len(self.rows[0]) if self.rows else 0

    @property
    def height(self):
        return len(self.rows)

    def tile(self, x, y):
        return NAMES.get(self.rows[y][x], "unknown")

    def count(self, name):
        return sum(self.tile(x, y) == name for y in range(self.height) for x in range(self.width))
