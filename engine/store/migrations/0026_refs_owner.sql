-- Evidence is forgotten by the run that it is of.
CREATE INDEX blob_refs_owner ON blob_refs (owner) WHERE what = 'evidence';
