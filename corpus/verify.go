package corpus

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/corpus/trajectory"
)

// Verification is what Verify found; Problems is empty for a good corpus.
type Verification struct {
	Rows     int      `json:"rows"`
	Files    int      `json:"files"`
	Problems []string `json:"problems"`
}

// maxProblems bounds what is listed.
const maxProblems = 100

// ReadManifest reads the manifest of a corpus of at most 256 MiB.
func ReadManifest(dir string) (*Manifest, error) {
	st, err := os.Stat(filepath.Join(dir, ManifestName))
	if err != nil {
		return nil, &agon.Error{Code: "no_corpus", Status: 404, Field: "dir", Message: "there is no " + ManifestName + " in " + dir, Err: err}
	}
	if st.Size() > 256<<20 {
		return nil, &agon.Error{Code: "too_large", Status: 413, Field: "dir", Limit: "256 MiB", Message: ManifestName + " is too large"}
	}
	b, err := os.ReadFile(filepath.Join(dir, ManifestName))
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	var m Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, &agon.Error{Code: "bad_manifest", Status: 422, Field: ManifestName, Message: "the manifest does not parse: " + err.Error()}
	}
	return &m, nil
}

// Verify hashes the files of a corpus again and looks for leaks: a cluster, a
// problem or a query in two splits, an ATIF document that is none, a row that
// does not say where it comes from. finals are those that the corpus was built with.
func Verify(dir string, finals Finals) (*Verification, error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	v := &Verification{Problems: []string{}}
	bad := func(format string, args ...any) {
		if len(v.Problems) < maxProblems {
			v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
		}
	}
	have, err := hashTree(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(m.Files)) {
		got, ok := have[name]
		if !ok {
			bad("%s is missing", name)
		} else if got != m.Files[name] {
			bad("%s is not the file that was written", name)
		}
		v.Files++
	}
	for name := range have {
		if _, ok := m.Files[name]; !ok {
			bad("%s is not in the manifest", name)
		}
	}
	where := map[string]string{} // key -> split
	once := func(key, split, what string) {
		if at, ok := where[key]; ok && at != split {
			bad("%s stands in %s and in %s", what, at, split)
		}
		where[key] = split
	}
	for _, split := range []string{Train, Eval, Held} {
		err := eachLine(filepath.Join(dir, split, "rows.jsonl"), func(line []byte) error {
			var r Row
			if err := json.Unmarshal(line, &r); err != nil {
				bad("%s/rows.jsonl: a row does not parse", split)
				return nil //nolint:nilerror // it is reported
			}
			v.Rows++
			if r.Split != split || m.Clusters[r.Cluster] != split {
				bad("row %s says it is of %s and stands in %s", r.ID, r.Split, split)
			}
			if r.From.Run == "" || r.From.Validator == "" || r.From.Licence == "" || r.From.Scorer == "" {
				bad("row %s does not say where it comes from", r.ID)
			}
			once("cluster "+r.Cluster, split, "cluster "+r.Cluster)
			once("task "+string(r.From.TaskDigest), split, "problem "+r.From.Task)
			if q := Normalise(r.query()); q != "" {
				once("query "+agon.Sum([]byte(q)).Hex(), split, "the query of row "+r.ID)
			}
			if r.Reward.Outcome != nil && *r.Reward.Outcome == 1 {
				for _, id := range finals.named(&r) {
					once("answer "+r.From.Kind+" "+id, split, finals[r.From.Kind].Noun+" "+id)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		err = eachLine(filepath.Join(dir, split, "atif.jsonl"), func(line []byte) error {
			if err := trajectory.Validate(line); err != nil {
				bad("%s/atif.jsonl: %v", split, err)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if v.Rows != m.Counts.Rows {
		bad("the manifest counts %d rows, there are %d", m.Counts.Rows, v.Rows)
	}
	slices.Sort(v.Problems)
	return v, nil
}

// maxRow bounds a line of an export, in bytes.
const maxRow = 64 << 20

// eachLine calls fn with every line of a file; a file that is not there has none.
func eachLine(path string, fn func([]byte) error) error {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read corpus: %w", err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(make([]byte, 1<<20), maxRow)
	for s.Scan() {
		if err := fn(s.Bytes()); err != nil {
			return err
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("read corpus: %s: %w", filepath.Base(path), err)
	}
	return nil
}

var errEnough = errors.New("enough")

// Sample returns the first n rows of a corpus, of the splits that may be looked at.
func Sample(dir string, n int) ([]Row, error) {
	var out []Row
	for _, split := range []string{Train, Eval} {
		err := eachLine(filepath.Join(dir, split, "rows.jsonl"), func(line []byte) error {
			var r Row
			if err := json.Unmarshal(line, &r); err != nil {
				return fmt.Errorf("read row: %w", err)
			}
			if out = append(out, r); len(out) >= n {
				return errEnough
			}
			return nil
		})
		if errors.Is(err, errEnough) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
