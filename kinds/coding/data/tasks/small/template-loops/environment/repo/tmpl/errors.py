class TemplateError(Exception):
    """A template that cannot be parsed or rendered."""
