-- Results that others judge again. A judging is of one counted attempt, subject
-- is the submission whose decision waits for it. Its id is that of its lease.
CREATE TABLE judgings (
	n           $ID,
	id          text NOT NULL UNIQUE,
	run         text NOT NULL,
	attempt     bigint NOT NULL,
	arena       text NOT NULL,
	submission  text NOT NULL,
	subject     text NOT NULL,
	k           bigint NOT NULL,
	why         text NOT NULL,
	player      text NOT NULL,
	validator   text NOT NULL DEFAULT '',
	token_hash  text NOT NULL DEFAULT '',
	state       text NOT NULL,
	verdict     text NOT NULL DEFAULT '',
	against     text NOT NULL DEFAULT '',
	scores      text NOT NULL DEFAULT '[]',
	driver      text NOT NULL DEFAULT '{}',
	reason      text NOT NULL DEFAULT '',
	result_hash text NOT NULL DEFAULT '',
	tries       bigint NOT NULL DEFAULT 0,
	created_at  bigint NOT NULL,
	leased_at   bigint NOT NULL DEFAULT 0,
	deadline    bigint NOT NULL,
	ended_at    bigint NOT NULL DEFAULT 0,
	UNIQUE (run, k)
);
CREATE INDEX judgings_queue ON judgings (arena, n) WHERE state = 'queued';
CREATE INDEX judgings_held ON judgings (validator) WHERE state = 'leased';
CREATE INDEX judgings_open ON judgings (subject) WHERE state = 'queued' OR state = 'leased';
CREATE INDEX judgings_live ON judgings (deadline) WHERE state = 'queued' OR state = 'leased';
CREATE INDEX judgings_share ON judgings (arena, created_at) WHERE why = 'share';
CREATE INDEX judgings_against ON judgings (against, ended_at) WHERE against <> '';
CREATE INDEX judgings_player ON judgings (player, ended_at);
CREATE INDEX judgings_by ON judgings (validator, submission);

-- What counts instead of the first result where judgings contradict it. The
-- first stays in scores.
CREATE TABLE rulings (
	run     text NOT NULL,
	task    text NOT NULL,
	value   double precision NOT NULL,
	solved  bigint NOT NULL,
	metrics text NOT NULL,
	scorer  text NOT NULL,
	detail  text NOT NULL,
	PRIMARY KEY (run, task)
);

-- Whose each validator is, and when it last asked for something to judge.
CREATE TABLE judges (
	arena     text NOT NULL,
	validator text NOT NULL,
	coldkey   text NOT NULL,
	at        bigint NOT NULL,
	PRIMARY KEY (arena, validator)
);
