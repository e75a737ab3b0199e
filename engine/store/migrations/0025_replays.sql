-- Faults of the agent that others play again: how many were drawn in a day.
CREATE INDEX judgings_fault ON judgings (arena, created_at) WHERE why = 'fault';
