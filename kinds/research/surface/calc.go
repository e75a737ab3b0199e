package surface

import (
	"fmt"

	"github.com/agon-arena/agon/calc"
)

// Rule's name for agon calc.
const RuleName = "bitsota.surface"

type calcIn struct {
	Files   map[string]string `json:"files"`
	Patch   string            `json:"patch"`
	Allowed []string          `json:"allowed"`
	Fnmatch bool              `json:"fnmatch,omitempty"`
}

type calcOut struct {
	OK      bool     `json:"ok"`
	Reasons []string `json:"reasons"`
}

// Rules are this package's rules for agon calc.
func Rules() []calc.Rule {
	return []calc.Rule{
		calc.Func(RuleName, "{files: {path: text}, patch, allowed: [glob], fnmatch?} -> {ok, reasons}: may this patch be applied to these files", calcSurface),
	}
}

func calcSurface(in calcIn) (calcOut, error) {
	if err := CheckGlobs(in.Allowed); err != nil {
		return calcOut{}, fmt.Errorf("allowed: %w", err)
	}
	files := make(map[string]File, len(in.Files))
	for n, text := range in.Files {
		files[n] = Bytes(ModeFile, []byte(text))
	}
	rule := Rule{Allowed: in.Allowed}
	if in.Fnmatch {
		rule.Style = StyleFnmatch
	}
	res, err := Check(NewTree(files), []byte(in.Patch), rule)
	if err != nil {
		return calcOut{}, err
	}
	out := calcOut{OK: res.OK, Reasons: []string{}}
	for _, r := range res.Reasons {
		out.Reasons = append(out.Reasons, r.String())
	}
	return out, nil
}
