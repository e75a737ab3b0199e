-- What the log says beside submissions, results and decisions: all of it public.
CREATE TABLE log_notes (
	id   text PRIMARY KEY,
	type text NOT NULL,
	at   bigint NOT NULL,
	body text NOT NULL,
	fact bigint NOT NULL
);
