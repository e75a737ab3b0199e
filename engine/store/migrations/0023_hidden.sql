-- Hidden tasks as they show outside: an id that says nothing, and a commitment
-- to their digest, whose salt is shown when they retire.
CREATE TABLE hidden_tasks (
	arena      text   NOT NULL,
	digest     text   NOT NULL,
	id         text   NOT NULL,
	name       text   NOT NULL,
	salt       text   NOT NULL,
	commitment text   NOT NULL,
	created_at bigint NOT NULL,
	retired_at bigint NOT NULL DEFAULT 0,
	PRIMARY KEY (arena, digest)
);
CREATE UNIQUE INDEX hidden_tasks_id ON hidden_tasks (arena, id);
