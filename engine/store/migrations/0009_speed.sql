-- Partial indexes without IN: SQLite fills a table with such a list for each
-- index of each row that changes. What held runs need is asked of attempts,
-- scores are found by their run, and attempts_validator serves submissions too.
DROP INDEX scores_key;
DROP INDEX attempts_submission;
DROP INDEX runs_held;
DROP INDEX runs_deadline;
DROP INDEX runs_live;
DROP INDEX attempts_one_live;
DROP INDEX attempts_held;
CREATE INDEX runs_deadline ON runs (deadline) WHERE (state = 'queued' OR state = 'leased' OR state = 'playing' OR state = 'judging');
CREATE INDEX runs_live ON runs (submission) WHERE (state = 'queued' OR state = 'leased' OR state = 'playing' OR state = 'judging');
CREATE UNIQUE INDEX attempts_one_live ON attempts (run) WHERE (state = 'leased' OR state = 'playing' OR state = 'judging');
CREATE INDEX attempts_held ON attempts (arena, validator) WHERE (state = 'leased' OR state = 'playing' OR state = 'judging');
