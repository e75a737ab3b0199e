-- Portable between SQLite and PostgreSQL: $ID is the driver's growing integer
-- key, times are bigint microseconds since 1970 UTC, JSON is text, booleans
-- are 0 or 1. Indexes that the queue uses are partial, so that finished runs
-- cost it nothing.

CREATE TABLE arenas (
	id         text PRIMARY KEY,
	body       text NOT NULL,
	created_at bigint NOT NULL
);

CREATE TABLE policies (
	digest text PRIMARY KEY,
	body   text NOT NULL
);

CREATE TABLE submissions (
	seq         $ID,
	id          text NOT NULL UNIQUE,
	arena       text NOT NULL,
	miner       text NOT NULL,
	coldkey     text NOT NULL,
	netuid      bigint NOT NULL,
	name        text NOT NULL,
	digest      text NOT NULL,
	licence     text NOT NULL,
	state       text NOT NULL,
	scripted    bigint NOT NULL,
	created_at  bigint NOT NULL,
	score       double precision,
	solved      bigint,
	total       bigint,
	cost_micros bigint NOT NULL DEFAULT 0,
	findings    text NOT NULL DEFAULT '[]',
	UNIQUE (arena, digest)
);
CREATE INDEX submissions_arena ON submissions (arena, seq);
CREATE INDEX submissions_coldkey ON submissions (arena, coldkey, created_at);
CREATE INDEX submissions_undecided ON submissions (arena, seq) WHERE state IN ('queued', 'playing');

CREATE TABLE runs (
	n           $ID,
	id          text NOT NULL UNIQUE,
	arena       text NOT NULL,
	submission  text NOT NULL,
	sub_seq     bigint NOT NULL,
	tasks       text NOT NULL,
	replica     bigint NOT NULL,
	seed        bigint NOT NULL,
	policy      text NOT NULL,
	driver      text NOT NULL,
	max_hold_us bigint NOT NULL,
	state       text NOT NULL,
	again       bigint NOT NULL DEFAULT 0,
	attempts    bigint NOT NULL DEFAULT 0,
	retries     bigint NOT NULL DEFAULT 0,
	fault       text NOT NULL DEFAULT '',
	reason      text NOT NULL DEFAULT '',
	deadline    bigint NOT NULL,
	created_at  bigint NOT NULL,
	ended_at    bigint NOT NULL DEFAULT 0
);
CREATE INDEX runs_submission ON runs (submission, n);
CREATE INDEX runs_arena ON runs (arena, n);
CREATE INDEX runs_queue ON runs (arena, again, sub_seq, n) WHERE state = 'queued';
CREATE INDEX runs_deadline ON runs (deadline) WHERE state IN ('queued', 'leased', 'playing', 'judging');
CREATE INDEX runs_live ON runs (submission) WHERE state IN ('queued', 'leased', 'playing', 'judging');
CREATE INDEX runs_held ON runs (arena) WHERE state IN ('leased', 'playing', 'judging');

CREATE TABLE attempts (
	run         text NOT NULL,
	n           bigint NOT NULL,
	lease       text NOT NULL UNIQUE,
	token_hash  text NOT NULL,
	arena       text NOT NULL,
	submission  text NOT NULL,
	validator   text NOT NULL,
	state       text NOT NULL,
	fault       text NOT NULL DEFAULT '',
	reason      text NOT NULL DEFAULT '',
	outcome     text NOT NULL DEFAULT '',
	driver      text NOT NULL DEFAULT '{}',
	cost_micros bigint NOT NULL DEFAULT 0,
	box_ms      bigint NOT NULL DEFAULT 0,
	evidence    text NOT NULL DEFAULT '',
	counted     bigint NOT NULL DEFAULT 0,
	late        bigint NOT NULL DEFAULT 0,
	leased_at   bigint NOT NULL,
	lease_until bigint NOT NULL,
	seen_at     bigint NOT NULL,
	ended_at    bigint NOT NULL DEFAULT 0,
	event_bytes bigint NOT NULL DEFAULT 0,
	event_count bigint NOT NULL DEFAULT 0,
	result_hash text NOT NULL DEFAULT '',
	reply       text NOT NULL DEFAULT '',
	PRIMARY KEY (run, n)
);
-- The two laws of a lease, kept by the database itself: one live lease and one
-- counted result a run.
CREATE UNIQUE INDEX attempts_one_live ON attempts (run) WHERE state IN ('leased', 'playing', 'judging');
CREATE UNIQUE INDEX attempts_one_counted ON attempts (run) WHERE counted = 1;
CREATE INDEX attempts_held ON attempts (validator, arena) WHERE state IN ('leased', 'playing', 'judging');
CREATE INDEX attempts_submission ON attempts (submission, validator);

CREATE TABLE events (
	run     text NOT NULL,
	attempt bigint NOT NULL,
	seq     bigint NOT NULL,
	at      bigint NOT NULL,
	task    text NOT NULL,
	type    text NOT NULL,
	data    text NOT NULL,
	PRIMARY KEY (run, attempt, seq)
);

CREATE TABLE receipts (
	run     text NOT NULL,
	attempt bigint NOT NULL,
	id      text NOT NULL,
	task    text NOT NULL,
	body    text NOT NULL,
	PRIMARY KEY (run, attempt, id)
);

CREATE TABLE scores (
	run         text NOT NULL,
	task        text NOT NULL,
	attempt     bigint NOT NULL,
	score_key   text NOT NULL,
	value       double precision NOT NULL,
	solved      bigint NOT NULL,
	metrics     text NOT NULL,
	scorer      text NOT NULL,
	detail      text NOT NULL,
	PRIMARY KEY (run, task)
);
CREATE INDEX scores_key ON scores (score_key);

CREATE TABLE seats (
	arena      text PRIMARY KEY,
	submission text NOT NULL,
	miner      text NOT NULL,
	score      double precision NOT NULL,
	since      bigint NOT NULL
);

CREATE TABLE decisions (
	n          $ID,
	arena      text NOT NULL,
	challenger text NOT NULL UNIQUE,
	incumbent  text NOT NULL,
	score      double precision NOT NULL,
	bar        double precision,
	outcome    text NOT NULL,
	rule       text NOT NULL,
	numbers    text NOT NULL,
	at         bigint NOT NULL
);
CREATE INDEX decisions_arena ON decisions (arena, n);

CREATE TABLE seen (
	arena     text NOT NULL,
	validator text NOT NULL,
	driver    text NOT NULL,
	at        bigint NOT NULL,
	PRIMARY KEY (arena, validator)
);

CREATE TABLE blob_refs (
	digest text NOT NULL,
	what   text NOT NULL,
	owner  text NOT NULL,
	hidden bigint NOT NULL DEFAULT 0,
	PRIMARY KEY (digest, what, owner)
);

CREATE TABLE nonces (
	scheme text NOT NULL,
	hotkey text NOT NULL,
	nonce  text NOT NULL,
	until  bigint NOT NULL,
	PRIMARY KEY (scheme, hotkey, nonce)
);
CREATE INDEX nonces_until ON nonces (until);

CREATE TABLE counters (
	scope text NOT NULL,
	name  text NOT NULL,
	key   text NOT NULL,
	n     bigint NOT NULL,
	PRIMARY KEY (scope, name, key)
);
