-- Whether a script or a model answered a submission's plays, by the validator
-- whose gateway says so: one of them alone marks nobody.
CREATE TABLE answers (
	submission text   NOT NULL,
	validator  text   NOT NULL,
	script     bigint NOT NULL,
	PRIMARY KEY (submission, validator)
);
INSERT INTO answers (submission, validator, script) SELECT id, '', 1 FROM submissions WHERE scripted = 1;
