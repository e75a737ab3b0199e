-- What the files of a submission do, as its kind names it: two submissions of
-- an arena with the same name are copies.
ALTER TABLE submissions ADD COLUMN structure text NOT NULL DEFAULT '';
CREATE INDEX submissions_structure ON submissions (arena, structure, seq) WHERE structure <> '';
