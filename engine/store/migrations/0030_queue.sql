-- Runs that were lost come first in the queue: one look finds the next run, and counting
-- reads the index alone.
DROP INDEX runs_queue;
CREATE INDEX runs_queue ON runs (arena, again DESC, sub_seq, n, state) WHERE state = 'queued';
-- Submissions that wait for their block.
CREATE INDEX submissions_block ON submissions (arena) WHERE beacon_rule = 'block' AND beacon = '' AND state = 'queued';
