-- Small documents (JSON) of foreign wires, by place and name: what their sessions, batches
-- and payments are, for whichever server leads.
CREATE TABLE documents (
	place text NOT NULL,
	name  text NOT NULL,
	value text NOT NULL,
	PRIMARY KEY (place, name)
);
