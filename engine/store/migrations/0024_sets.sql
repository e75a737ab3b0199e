-- Set periods have a set of tasks where the arena has a supply, and may end with a block.
ALTER TABLE seed_periods ADD COLUMN opens_block bigint NOT NULL DEFAULT 0;
ALTER TABLE seed_periods ADD COLUMN closes_block bigint NOT NULL DEFAULT 0;
ALTER TABLE seed_periods ADD COLUMN tasks text NOT NULL DEFAULT '';
ALTER TABLE seed_periods ADD COLUMN turned_at bigint NOT NULL DEFAULT 0;
ALTER TABLE seed_periods ADD COLUMN beacon_block bigint NOT NULL DEFAULT 0;
ALTER TABLE seed_periods ADD COLUMN beacon text NOT NULL DEFAULT '';
ALTER TABLE seed_periods ADD COLUMN published_at bigint NOT NULL DEFAULT 0;
-- Runs that play who sits on the set of a later period say which.
ALTER TABLE runs ADD COLUMN title text NOT NULL DEFAULT '';
-- What those who sit scored on the sets of later periods.
CREATE TABLE set_titles (
	arena      text   NOT NULL,
	period     bigint NOT NULL,
	submission text   NOT NULL,
	done       bigint NOT NULL DEFAULT 0,
	tries      bigint NOT NULL DEFAULT 0,
	score      double precision NOT NULL DEFAULT 0,
	solved     bigint NOT NULL DEFAULT 0,
	total      bigint NOT NULL DEFAULT 0,
	stale      bigint NOT NULL DEFAULT 0,
	PRIMARY KEY (arena, period, submission)
);
