"""Token-bucket rate limiting."""

from .bucket import TokenBucket
from .clock import ManualClock
from .keyed import KeyedLimiter

__all__ = ["KeyedLimiter", "ManualClock", "TokenBucket"]
