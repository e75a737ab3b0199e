"""Pages of a list."""

from .links import links
from .page import Page
from .paginate import page_count, paginate

__all__ = ["Page", "links", "page_count", "paginate"]
