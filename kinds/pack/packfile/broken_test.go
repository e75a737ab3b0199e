package packfile

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// Each of the ways in which packs were seen broken is refused, with what is wrong.
func TestBrokenPacks(t *testing.T) {
	with := func(files, policy, metadata string) string {
		return fmt.Sprintf(`{"schema_version": 1, "files": %s, "tool_policy": %s, "metadata": %s}`, files, policy, metadata)
	}
	const files, policy, metadata = `{"AGENTS.md": "Be brief."}`, `{"allow": ["exec"], "deny": ["shell"]}`, `{"pack_name": "p", "pack_version": "1.0.0", "target_suite": "s"}`
	sound := with(files, policy, metadata)
	issues := func(text string) string {
		p, err := Read([]byte(text))
		if err != nil {
			return err.Error()
		}
		return strings.Join(p.Issues(SchemaAny), "; ")
	}
	if got := issues(sound); got != "" {
		t.Fatalf("a sound pack: %s", got)
	}
	for name, c := range map[string]struct{ text, want string }{
		"no JSON":                {"{not json", "not JSON"},
		"empty":                  {"", "not JSON"},
		"cut off":                {sound[:len(sound)-10], "not JSON"},
		"a list":                 {"[]", "must be a JSON object"},
		"a text":                 {`"x"`, "must be a JSON object"},
		"a byte order mark":      {"\ufeff" + sound, "byte order mark"},
		"a zero byte behind it":  {sound + "\x00", "text after the value"},
		"Latin-1":                {strings.Replace(sound, "brief", "br\xe9f", 1), "not UTF-8"},
		"nested 3,000 deep":      {with(files, policy, strings.Repeat("[", 3000)+strings.Repeat("]", 3000)), "nested deeper"},
		"a key twice":            {strings.Replace(sound, `"schema_version": 1`, `"schema_version": 1, "schema_version": 2`, 1), "Unsupported schema_version: 2"},
		"a version as a text":    {strings.Replace(sound, `"schema_version": 1`, `"schema_version": "1"`, 1), "Unsupported schema_version: 1"},
		"files as a list":        {with("[]", policy, metadata), "'files' must be a dict"},
		"a number for a file":    {with(`{"AGENTS.md": 5}`, policy, metadata), "'AGENTS.md' content must be string"},
		"no policy":              {with(`{"SOUL.md": "x"}`, policy, metadata), "Missing required file: AGENTS.md"},
		"40 KB":                  {with(`{"AGENTS.md": "`+strings.Repeat("x", 40_000)+`"}`, policy, metadata), "Pack too large: 40"},
		"2 MB":                   {with(`{"AGENTS.md": "`+strings.Repeat("x", 2<<20)+`"}`, policy, metadata), "it has 2097"},
		"a list of tools' rules": {with(files, "[]", metadata), "'tool_policy' must be a dict"},
		"a list in allow":        {with(files, `{"allow": [["exec"]]}`, metadata), "'allow' item must be string"},
		"null for allow":         {with(files, `{"allow": null}`, metadata), "'allow' must be a list"},
		"a number for allow":     {with(files, `{"allow": 5}`, metadata), "'allow' must be a list"},
		"allowed and denied":     {with(files, `{"allowed": ["exec"], "denied": []}`, metadata), "not 'allowed'/'denied'"},
		"exec without deny":      {with(files, `{"allow": ["exec"]}`, metadata), "Dangerous tools in 'allow'"},
		"null for metadata":      {with(files, policy, "null"), "'metadata' must be a dict"},
		"no version":             {with(files, policy, `{"pack_name": "p", "target_suite": "s"}`), "Required metadata field missing: pack_version"},
		"v before the version":   {with(files, policy, strings.Replace(metadata, "1.0.0", "v1.0.0", 1)), "should follow semver"},
	} {
		if got := issues(c.text); !strings.Contains(got, c.want) || bytes.ContainsAny([]byte(got), "\x00\xe9") {
			t.Errorf("%s: %.200q, want %q", name, got, c.want)
		}
	}
}
