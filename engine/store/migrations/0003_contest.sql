-- Runs of one group go to different validators ('' = no group); a duel's run
-- names the rival.
ALTER TABLE runs ADD COLUMN grp text NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN rival text NOT NULL DEFAULT '';
CREATE INDEX attempts_validator ON attempts (submission, validator, run);
