-- What boxes printed has a time apart from what a run is judged by, and a run of which
-- that is gone says so.
CREATE TABLE gone_files (
	run  text NOT NULL,
	what text NOT NULL,
	PRIMARY KEY (run, what)
);
CREATE INDEX blob_refs_output ON blob_refs (owner) WHERE what = 'output';
