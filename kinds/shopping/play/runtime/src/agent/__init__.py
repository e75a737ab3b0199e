"""The interface between an agent and the arena."""
