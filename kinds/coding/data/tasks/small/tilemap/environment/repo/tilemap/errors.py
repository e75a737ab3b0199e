class BadLevel(ValueError):
    """The bytes are not a level."""
