package store

// Clustered is a submission's place among copies.
type Clustered struct {
	Submission, Arena string
	Cluster           string // id of its first submission
	Sketch            string
}

// PutCluster stores a submission's cluster, or moves it to another.
func (t *Tx) PutCluster(c Clustered) error {
	err := t.put(`INSERT INTO clusters (submission, arena, cluster, sketch) VALUES ($1, $2, $3, $4)
		ON CONFLICT (submission) DO UPDATE SET cluster = excluded.cluster`, c.Submission, c.Arena, c.Cluster, c.Sketch)
	return err
}

// ClusterOf returns a submission's cluster, or ErrNotFound.
func (t *Tx) ClusterOf(submission string) (string, error) {
	return one(t, scanString, `SELECT cluster FROM clusters WHERE submission = $1`, submission)
}

// Clusters returns every sketch of an arena, by submission.
func (t *Tx) Clusters(arena string) ([]Clustered, error) {
	return many(t, func(r scanner) (c Clustered, err error) {
		err = r.Scan(&c.Submission, &c.Arena, &c.Cluster, &c.Sketch)
		return c, err
	}, `SELECT submission, arena, cluster, sketch FROM clusters WHERE arena = $1 ORDER BY submission`, arena)
}

// CountCluster counts the submissions of a cluster that challenged the seat, up
// to seq.
func (t *Tx) CountCluster(arena, cluster string, seq int64) (int64, error) {
	return one(t, scanInt, `SELECT count(*) FROM clusters c JOIN submissions s ON s.id = c.submission
		WHERE c.arena = $1 AND c.cluster = $2 AND s.seq <= $3 AND (s.solved IS NULL OR s.solved > 0)`+notCredited, arena, cluster, seq)
}
