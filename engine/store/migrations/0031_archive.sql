-- Events and receipts of runs that ended long ago stand in files of the blob store. Of a
-- run that is named here the file counts besides the rows, which go once the file has
-- been read back (cleared: 0 none are gone, 2 the events are, 1 all are). marks is a blob with the digests that the file names, 32 bytes each.
CREATE TABLE archives (
	file     text   NOT NULL PRIMARY KEY,
	marks    text   NOT NULL,
	runs     bigint NOT NULL,
	events   bigint NOT NULL,
	receipts bigint NOT NULL,
	bytes    bigint NOT NULL,
	at       bigint NOT NULL
);
CREATE TABLE archived_runs (
	run      text   NOT NULL PRIMARY KEY,
	file     text   NOT NULL,
	part     bigint NOT NULL,
	events   bigint NOT NULL,
	receipts bigint NOT NULL,
	cleared  bigint NOT NULL DEFAULT 0
);
CREATE INDEX archived_runs_left ON archived_runs (run) WHERE cleared <> 1;
