"""Dependency graphs and install orders."""

from .errors import CycleError, MissingError
from .graph import Graph
from .resolve import install_order, levels

__all__ = ["CycleError", "Graph", "MissingError", "install_order", "levels"]
