-- Facts on their way to the transparency log, a row for each commit that made
-- some: a line each, TYPE ID, the first of which has the index first. Rows that
-- state a fact name the row here.
CREATE TABLE log_facts (
	n     bigint PRIMARY KEY,
	first bigint NOT NULL,
	facts text NOT NULL
);
ALTER TABLE submissions ADD COLUMN fact bigint NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN fact bigint NOT NULL DEFAULT 0;
ALTER TABLE decisions ADD COLUMN fact bigint NOT NULL DEFAULT 0;
ALTER TABLE operator_log ADD COLUMN fact bigint NOT NULL DEFAULT 0;
-- The running hash of an attempt's events.
ALTER TABLE attempts ADD COLUMN event_head text NOT NULL DEFAULT '';
