-- Secrets that seeds come of, by arena and set period: the commitment is public
-- from the start, the secret when the period has ended.
CREATE TABLE seed_periods (
	arena       text   NOT NULL,
	n           bigint NOT NULL,
	opens       bigint NOT NULL,
	closes      bigint NOT NULL,
	secret      text   NOT NULL,
	commitment  text   NOT NULL,
	revealed_at bigint NOT NULL DEFAULT 0,
	PRIMARY KEY (arena, n)
);
CREATE INDEX seed_periods_due ON seed_periods (closes) WHERE revealed_at = 0;
-- What the seeds of a submission come of besides: -1 is none yet.
ALTER TABLE submissions ADD COLUMN period bigint NOT NULL DEFAULT -1;
ALTER TABLE submissions ADD COLUMN beacon_rule text NOT NULL DEFAULT '';
ALTER TABLE submissions ADD COLUMN beacon_block bigint NOT NULL DEFAULT 0;
ALTER TABLE submissions ADD COLUMN beacon text NOT NULL DEFAULT '';
CREATE INDEX submissions_wait ON submissions (seq) WHERE beacon_rule = 'block' AND beacon = '';
