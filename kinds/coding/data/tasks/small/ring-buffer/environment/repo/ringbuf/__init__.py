"""Fixed-size buffers."""

from .buffer import RingBuffer
from .window import Window

__all__ = ["RingBuffer", "Window"]
