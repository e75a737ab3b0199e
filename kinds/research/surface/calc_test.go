package surface

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agon-arena/agon/calc"
)

func TestCalc(t *testing.T) {
	for name, c := range map[string]struct {
		in   any
		want string
	}{
		"honest": {calcIn{Files: base, Patch: edit, Allowed: []string{"submission/*"}}, `{"ok":true,"reasons":[]}`},
		"outside": {
			calcIn{Files: base, Patch: edit, Allowed: []string{"docs/*"}},
			`{"ok":false,"reasons":["disallowed_patch_paths \"submission/train.py\": outside the paths that the task allows (docs/*)"]}`,
		},
		"rename": {
			calcIn{Files: base, Patch: "diff --git a/submission/train.py b/submission/train.py\nrename from bench.py\nrename to x\n", Allowed: []string{"submission/*"}},
			`{"ok":false,"reasons":["forbidden_patch_entry (rename_or_copy) \"submission/train.py\": renames and copies are not accepted (line 1: \"rename from bench.py\"): make the patch with git diff --no-renames"]}`,
		},
		"no globs": {calcIn{Files: base, Patch: edit, Allowed: []string{}}, `{"error":"allowed: 0 globs, from 1 to 64 are allowed"}`},
	} {
		t.Run(name, func(t *testing.T) {
			line, err := json.Marshal(c.in)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if _, err := calc.New(Rules()...).Run(RuleName, bytes.NewReader(line), &out); err != nil {
				t.Fatal(err)
			}
			if got := strings.TrimSpace(out.String()); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
