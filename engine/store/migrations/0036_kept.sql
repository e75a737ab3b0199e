-- What is remembered for a while for all servers: sessions of browsers and of foreign sign-ins,
-- counts of a day. id is a hash: the rows hold no secret.
CREATE TABLE kept (
	what  text NOT NULL,
	id    text NOT NULL,
	value text NOT NULL,
	until bigint NOT NULL,
	PRIMARY KEY (what, id)
);
CREATE INDEX kept_until ON kept (until);
