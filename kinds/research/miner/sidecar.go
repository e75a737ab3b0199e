package miner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// Sidecar is submission.json. A patch in it is never used.
type Sidecar struct {
	Summary        string          `json:"summary"`
	ClaimedMetrics json.RawMessage `json:"claimed_metrics"`
	BaseRef        string          `json:"base_ref"`
	ProposedIdea   string          `json:"proposed_idea"`
	Implemented    string          `json:"implemented_submission_id"`
	ArtifactURI    string          `json:"artifact_uri"`
	ArtifactSHA256 string          `json:"artifact_sha256"`
	ArtifactBytes  *int64          `json:"artifact_size_bytes"`
	ExecutionLog   string          `json:"execution_log"`
	Notes          string          `json:"notes"`
}

// maxSidecar bounds the file, in bytes.
const maxSidecar = 4 << 20

// ReadSidecar reads submission.json; its errors are the stock client's texts.
// metric, where it is not empty, must be among the claimed ones.
func ReadSidecar(path, metric string) (Sidecar, error) {
	var s Sidecar
	st, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return s, fmt.Errorf("submission sidecar is missing: %s", path)
	}
	if err != nil {
		return s, fmt.Errorf("read submission sidecar: %w", err)
	}
	if st.Size() > maxSidecar {
		return s, fmt.Errorf("submission sidecar is larger than %d bytes: %s", maxSidecar, path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return s, fmt.Errorf("read submission sidecar: %w", err)
	}
	if !json.Valid(b) {
		return s, fmt.Errorf("submission sidecar is not valid JSON: %s", path)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) {
		return s, errors.New("submission sidecar must be a JSON object")
	}
	if err := json.Unmarshal(b, &s); err != nil {
		var typ *json.UnmarshalTypeError
		if errors.As(err, &typ) {
			return s, fmt.Errorf("submission sidecar field %s is not a %s", typ.Field, typ.Type)
		}
		return s, fmt.Errorf("submission sidecar is not valid JSON: %s", path)
	}
	if s.Summary == "" {
		return s, errors.New("submission sidecar is missing required field: summary")
	}
	var metrics map[string]json.RawMessage
	if json.Unmarshal(s.ClaimedMetrics, &metrics) != nil || len(metrics) == 0 {
		return s, errors.New("submission sidecar is missing required field: claimed_metrics")
	}
	if v, ok := metrics[metric]; metric != "" && (!ok || string(v) == "null") {
		return s, fmt.Errorf("submission sidecar is missing required metric: %s", metric)
	}
	return s, nil
}

// Metric is a claimed number by name.
func (s Sidecar) Metric(name string) (float64, bool) {
	var m map[string]json.RawMessage
	var x float64
	if json.Unmarshal(s.ClaimedMetrics, &m) != nil || json.Unmarshal(m[name], &x) != nil {
		return 0, false
	}
	return x, true
}
