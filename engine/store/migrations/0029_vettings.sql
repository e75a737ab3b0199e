-- What somebody outside is asked of a submission: whether it is played, whether it may
-- sit. Who asks for one holds it for a time; afterwards another may.
CREATE TABLE vettings (
	id text NOT NULL PRIMARY KEY, arena text NOT NULL, submission text NOT NULL, what text NOT NULL, state text NOT NULL, tries bigint NOT NULL, worker text NOT NULL, token text NOT NULL,
	claimed_at bigint NOT NULL, lease_until bigint NOT NULL, next_at bigint NOT NULL, verdict text NOT NULL, score double precision NOT NULL, confidence double precision NOT NULL,
	summary text NOT NULL, detail text NOT NULL, error text NOT NULL, actor text NOT NULL, created_at bigint NOT NULL, ended_at bigint NOT NULL
);
CREATE UNIQUE INDEX vettings_submission ON vettings (submission, what);
CREATE INDEX vettings_state ON vettings (arena, what, state, created_at);
