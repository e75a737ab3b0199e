-- What pages ask for: the ranking of an arena, and what its validators did.
CREATE INDEX submissions_rank ON submissions (arena, (CASE WHEN score IS NULL THEN 1 ELSE 0 END), score DESC, seq);
CREATE INDEX attempts_validators ON attempts (arena, validator);
