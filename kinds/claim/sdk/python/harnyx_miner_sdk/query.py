"""The query era's task contract."""

from agon_sdk.query import CitationRef, CitationSlice, Query, Response

__all__ = ["CitationRef", "CitationSlice", "Query", "Response"]
