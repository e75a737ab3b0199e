-- The halves of paired replays stand in groups "pair CHALLENGER STREAM", whose
-- stream is one validator's for as long as it is seen.
CREATE INDEX runs_grp ON runs (grp, state) WHERE grp <> '';
CREATE TABLE pair_streams (
	grp text NOT NULL PRIMARY KEY, challenger text NOT NULL, validator text NOT NULL, at bigint NOT NULL
);
CREATE INDEX pair_streams_of ON pair_streams (challenger, validator);
