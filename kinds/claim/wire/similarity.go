package wire

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"
)

// Similarity is a script that a platform wants to be compared with an earlier one.
type Similarity struct {
	BatchID   string `json:"-"`
	Artifact  string `json:"candidate_artifact_id"`
	Diff      string `json:"candidate_diff"`
	UID       int    `json:"candidate_miner_uid"`
	Reference string `json:"incumbent_artifact_id"`
	Owner     int    `json:"incumbent_miner_uid"`
	Script    string `json:"incumbent_script"`
}

// Likeness is what a judge said of it.
type Likeness struct {
	Class     string `json:"classification"`
	Model     string `json:"model"`
	Provider  string `json:"provider"`
	Reasoning string `json:"reasoning,omitempty"`
}

// ErrNoJudge says that no judge of this validator may vote on likeness (ValidatorConfig.Compare).
var ErrNoJudge = errors.New("similarity judge is not configured")

// similarity is POST /validator/miner-task-batches/{id}/similarity, which platforms of the
// query era ask before a batch is played.
func (v *Validator) similarity(w http.ResponseWriter, r *http.Request) {
	_, body, ok := signed(w, r, v.cfg.Verifier, v.need(), 8<<20)
	if !ok {
		return
	}
	in := Similarity{BatchID: r.PathValue("id"), UID: -1, Owner: -1}
	if uuid.Validate(in.BatchID) != nil {
		reply(w, http.StatusUnprocessableEntity, map[string]any{"detail": []field{{"uuid_parsing", []any{"path", "batch_id"}, "Input should be a valid UUID", nil}}})
		return
	}
	if !decode(w, body, true, &in) {
		return
	}
	for name, bad := range map[string]bool{
		"candidate_artifact_id": uuid.Validate(in.Artifact) != nil, "incumbent_artifact_id": uuid.Validate(in.Reference) != nil, "candidate_miner_uid": in.UID < 0, "incumbent_miner_uid": in.Owner < 0,
		"candidate_diff": in.Diff == "", "incumbent_script": in.Script == "",
	} {
		if bad {
			invalid(w, "value_error", "it is missing, or not what it should be", name)
			return
		}
	}
	got, err := Likeness{}, ErrNoJudge
	if v.cfg.Compare != nil {
		got, err = v.cfg.Compare(context.WithoutCancel(r.Context()), in) // what was begun is paid for
	}
	if errors.Is(err, ErrNoJudge) {
		reply(w, http.StatusServiceUnavailable, map[string]string{"detail": err.Error()})
		return
	}
	if err != nil {
		v.cfg.Log.Warn("comparing scripts", "batch", in.BatchID, "artifact", in.Artifact, "err", err)
		reply(w, http.StatusBadGateway, map[string]any{"error_code": "similarity_judge_failed", "retryable": false, "detail": err.Error(), "judge_usage": nil})
		return
	}
	reply(w, http.StatusOK, map[string]any{
		"classification": got.Class, "model": got.Model, "provider": got.Provider, "reasoning": text(got.Reasoning), "reasoning_tokens": nil, "judge_usage": nil,
	})
}
