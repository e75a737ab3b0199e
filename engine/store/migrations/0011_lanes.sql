-- Lanes of the later era: id is the subnet, ref the lane's hash.
CREATE TABLE research_lanes (
	n $ID, id text NOT NULL UNIQUE, task text NOT NULL, owner text NOT NULL, ref text NOT NULL, status text NOT NULL,
	at bigint NOT NULL, body text NOT NULL
);
-- Published emission roots: id is lane/epoch, ref the subnet.
CREATE TABLE research_emissions (
	n $ID, id text NOT NULL UNIQUE, task text NOT NULL, owner text NOT NULL, ref text NOT NULL, status text NOT NULL,
	at bigint NOT NULL, body text NOT NULL
);
CREATE INDEX research_emissions_ref ON research_emissions (ref, n);
-- What an emission has paid: id is lane/submission.
CREATE TABLE research_paid (
	n $ID, id text NOT NULL UNIQUE, task text NOT NULL, owner text NOT NULL, ref text NOT NULL, status text NOT NULL,
	at bigint NOT NULL, body text NOT NULL
);
