package corpus

import "github.com/agon-arena/agon"

// kept is what stays in memory of a row, in few bytes, since there may be
// millions; the rest waits in the spool.
type kept struct {
	id, calls                       [16]byte // of the row; of what it did
	offset                          int64
	value, quality                  float64
	cost                            agon.Micros
	task, kind, coldkey, submission name
	success, agentic                bool
	cluster, split                  string // since choose; the rows of a cluster share theirs
}

// name is a string of which many rows have the same.
type name int32

// names holds each string once.
type names struct {
	all []string
	at  map[string]name
}

func (n *names) of(s string) name {
	i, ok := n.at[s]
	if !ok {
		i = name(len(n.all)) //nolint:gosec // as many as rows at most, which have offsets in a file
		n.all, n.at[s] = append(n.all, s), i
	}
	return i
}
