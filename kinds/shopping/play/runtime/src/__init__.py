"""What agents of a shopping arena import."""
