package supply

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/agon-arena/agon/kinds/claim/play"
)

// ProvenanceFile says in a task which models its claim and reference come from.
const ProvenanceFile = "tests/provenance.json"

// Write puts a set into dir, which must not exist: one task directory per
// claim, claims.json as foreign validators take it, and report.json. The
// directory appears whole or not at all.
func Write(dir string, s *Set) error {
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("write claims: %s is there already", dir)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("write claims: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".claims-*")
	if err != nil {
		return fmt.Errorf("write claims: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }() // gone after the rename
	if err := os.Chmod(tmp, 0o755); err != nil {
		return fmt.Errorf("write claims: %w", err)
	}
	wire := make([]any, 0, len(s.Tasks))
	for i, t := range s.Tasks {
		p := t.Claim.Payload
		name := fmt.Sprintf("claim-%03d", i+1)
		err := errors.Join(
			put(tmp, name+"/task.toml", []byte("version = \"1.0\"\n\n[metadata]\ndifficulty = \"medium\"\n\n[agon]\nkind = \"claim\"\n")),
			put(tmp, name+"/instruction.md", []byte("Judge the claim in `environment/claim.json` against its rubric.\n")),
			putJSON(tmp, name+"/"+play.ClaimFile, t.Claim), putJSON(tmp, name+"/"+play.ReferenceFile, t.Reference),
		)
		if err == nil && t.From != (Provenance{}) {
			err = putJSON(tmp, name+"/"+ProvenanceFile, t.From)
		}
		if err != nil {
			return fmt.Errorf("write claims: %w", err)
		}
		w := map[string]any{
			"claim_id": t.Claim.ClaimID, "text": p.ClaimText, "budget_usd": float64(t.Claim.Budget) / 1e6, "reference_answer": t.Reference,
			"rubric": map[string]any{"title": p.RubricTitle, "description": p.RubricDescription, "verdict_options": map[string]any{"options": p.VerdictOptions}},
		}
		if p.Context != nil {
			w["context"] = p.Context
		}
		wire = append(wire, w)
	}
	if err := errors.Join(putJSON(tmp, "claims.json", wire), putJSON(tmp, "report.json", s.Report)); err != nil {
		return fmt.Errorf("write claims: %w", err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return fmt.Errorf("write claims: %w", err)
	}
	return nil
}

func put(dir, name string, b []byte) error {
	p := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	return os.WriteFile(p, b, 0o644)
}

func putJSON(dir, name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return put(dir, name, append(b, '\n'))
}
