-- What submissions are like, in arenas that charge copies as one: the cluster is
-- the id of its first submission, the sketch is what later ones are compared with.
CREATE TABLE clusters (
	submission text NOT NULL PRIMARY KEY, arena text NOT NULL, cluster text NOT NULL, sketch text NOT NULL
);
CREATE INDEX clusters_of ON clusters (arena, cluster);
