-- A miner's objection to how a submission was played: its runs are played again
-- by others, and the operator answers until the deadline.
CREATE TABLE appeals (
	submission text NOT NULL PRIMARY KEY, arena text NOT NULL, miner text NOT NULL, coldkey text NOT NULL, reason text NOT NULL, state text NOT NULL,
	at bigint NOT NULL, deadline bigint NOT NULL, answered_at bigint NOT NULL, answer text NOT NULL, compared text NOT NULL
);
CREATE INDEX appeals_open ON appeals (state, deadline);
CREATE INDEX appeals_arena ON appeals (arena, at);
