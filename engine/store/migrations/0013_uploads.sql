-- Which bytes a validator put under which lease: only these, and what is
-- public already, may be evidence of its result. Rows go with the result.
CREATE TABLE uploads (
	lease  text NOT NULL,
	digest text NOT NULL,
	at     bigint NOT NULL,
	PRIMARY KEY (lease, digest)
);
CREATE INDEX uploads_at ON uploads (at);
