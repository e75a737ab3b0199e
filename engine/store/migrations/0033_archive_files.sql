-- The runs of a file of the archive are found by it: a file whose time is over is dropped. Its runs stay here with file = ''.
CREATE INDEX archived_runs_file ON archived_runs (file);
