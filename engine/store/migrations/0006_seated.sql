-- Who sits in an arena follows from who took a seat: a few rows among all
-- decisions.
CREATE INDEX decisions_seated ON decisions (arena, n) WHERE outcome = 'took_seat';
