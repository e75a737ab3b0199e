-- Plays of known outcome, which no validator can tell from others, and what each
-- validator made of them. A duel is two runs of one validator: gain is known.
CREATE TABLE canaries (
	id text NOT NULL PRIMARY KEY, arena text NOT NULL, submission text NOT NULL, rival text NOT NULL, known double precision NOT NULL, tolerance double precision NOT NULL,
	plays bigint NOT NULL, at bigint NOT NULL, actor text NOT NULL, reason text NOT NULL
);
CREATE INDEX canaries_arena ON canaries (arena, at);
CREATE TABLE canary_hits (
	run text NOT NULL PRIMARY KEY, canary text NOT NULL, arena text NOT NULL, validator text NOT NULL, known double precision NOT NULL, observed double precision NOT NULL, missed bigint NOT NULL, at bigint NOT NULL
);
CREATE INDEX canary_hits_validator ON canary_hits (validator, at);
