package packfile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Names and limits of packs.
const (
	PolicyFile = "AGENTS.md" // of schema OPP v1
	SkillFile  = "SKILL.md"  // of schema s1
	// MaxPack bounds the canonical form, in bytes.
	MaxPack = 32768
)

// Schemas that Check knows.
const (
	SchemaOPP = "opp-v1"
	SchemaS1  = "s1"
	SchemaAny = "any" // either: s1 where there is a SKILL.md and no AGENTS.md
)

// Pack is a pack that was read, whatever it holds.
type Pack struct {
	Value     Value
	Canonical []byte
	Hash      string // 64 hex digits: SHA-256 of Canonical
}

// Read parses a pack and names it. It says nothing about its fields.
func Read(b []byte) (*Pack, error) {
	v, err := Parse(b)
	if err != nil {
		return nil, err
	}
	return New(v), nil
}

// New names a pack.
func New(v Value) *Pack {
	c := v.Canonical()
	h := sha256.Sum256(c)
	return &Pack{Value: v, Canonical: c, Hash: hex.EncodeToString(h[:])}
}

// File returns a file of the pack; ok is false where there is none, or where
// it is not text.
func (p *Pack) File(name string) (text string, ok bool) {
	v := p.Value.Get("files").Get(name)
	return v.Str, v.Kind == String
}

// Files lists the names of the pack's files in order.
func (p *Pack) Files() []string { return slices.Clone(p.Value.Get("files").Keys) }

// Tools returns the tools that a pack allows and denies; nil means that it
// does not say.
func (p *Pack) Tools() (allow, deny []string) {
	policy := p.Value.Get("tool_policy")
	list := func(name string) []string {
		v := policy.Get(name)
		if v.Kind != List {
			return nil
		}
		out := make([]string, 0, len(v.List))
		for _, e := range v.List {
			if e.Kind == String {
				out = append(out, e.Str)
			}
		}
		return out
	}
	return list("allow"), list("deny")
}

// Policy returns the text that similarity compares: SKILL.md or AGENTS.md.
func (p *Pack) Policy() (text string, ok bool) {
	if s, ok := p.File(PolicyFile); ok {
		return s, true
	}
	return p.File(SkillFile)
}

// Issues says everything that is wrong with a pack, in a fixed order and in
// words that other validators use too. schema is SchemaOPP, SchemaS1 or SchemaAny.
func (p *Pack) Issues(schema string) []string {
	switch schema {
	case SchemaS1:
		return issuesS1(p.Value, len(p.Canonical))
	case SchemaAny: // what it looks like is what it is checked as
		if files := p.Value.Get("files"); files.Get(PolicyFile).Kind == Absent && files.Get(SkillFile).Kind != Absent {
			return issuesS1(p.Value, len(p.Canonical))
		}
	}
	return issuesOPP(p.Value, len(p.Canonical))
}

// isOne is Python's == 1.
func isOne(v Value) bool {
	return v.Kind == Int && v.Int == "1" || v.Kind == Float && v.Float == 1 || v.Kind == Bool && v.Bool
}

var dangerous = []string{"exec", "shell", "group:runtime", "admin_*"}

func issuesOPP(v Value, size int) []string {
	if v.Kind != Object {
		return []string{"pack must be a JSON object"}
	}
	issues := []string{}
	say := func(format string, a ...any) { issues = append(issues, fmt.Sprintf(format, a...)) }
	if sv := v.Get("schema_version"); !isOne(sv) {
		say("Unsupported schema_version: %s", cut(sv.Text()))
	}
	for _, name := range []string{"schema_version", "files", "tool_policy", "metadata"} {
		if v.Get(name).Kind == Absent {
			say("Missing required field: %s", name)
		}
	}
	switch files := v.Get("files"); files.Kind {
	case Absent:
	case Object:
		if files.Get(PolicyFile).Kind == Absent {
			say("Missing required file: %s", PolicyFile)
		}
		for _, name := range files.Keys {
			if files.Fields[name].Kind != String {
				say("File '%s' content must be string", cut(printable(name)))
			}
		}
	default:
		say("'files' must be a dict")
	}
	switch policy := v.Get("tool_policy"); policy.Kind {
	case Absent:
	case Object:
		issues = append(issues, policyIssues(policy)...)
	default:
		say("'tool_policy' must be a dict")
	}
	switch meta := v.Get("metadata"); meta.Kind {
	case Absent:
	case Object:
		for _, name := range []string{"pack_name", "pack_version", "target_suite"} {
			if meta.Get(name).Kind == Absent {
				say("Required metadata field missing: %s", name)
			}
		}
		switch version := meta.Get("pack_version"); {
		case version.Kind == Absent:
		case version.Kind != String:
			say("'pack_version' must be string")
		case !semver(version.Str):
			say("'pack_version' should follow semver (e"+".g., '1.0.0'): %s", cut(version.Text()))
		}
	default:
		say("'metadata' must be a dict")
	}
	if size > MaxPack {
		say("Pack too large: %d bytes (max 32KB)", size)
	}
	return issues
}

func policyIssues(policy Value) []string {
	var issues []string
	if policy.Get("allowed").Kind != Absent || policy.Get("denied").Kind != Absent {
		issues = append(issues, "Use 'allow'/'deny' (OpenClaw semantics), not 'allowed'/'denied'")
	}
	danger := map[string]bool{}
	for _, name := range []string{"allow", "deny"} {
		v := policy.Get(name)
		if v.Kind == Absent {
			continue
		}
		if v.Kind != List {
			issues = append(issues, fmt.Sprintf("'%s' must be a list", name))
			continue
		}
		for _, e := range v.List {
			if e.Kind != String {
				issues = append(issues, fmt.Sprintf("'%s' item must be string: %s", name, cut(e.Text())))
				continue
			}
			danger[name] = danger[name] || slices.Contains(dangerous, e.Str)
		}
	}
	if danger["allow"] && !danger["deny"] {
		issues = append(issues, "Dangerous tools in 'allow' but no dangerous tools in 'deny' (defense-in-depth: consider denying specific dangerous tools)")
	}
	return issues
}

// maxShown bounds a foreign value inside an issue, in characters. No value of a
// sound pack comes near it.
const maxShown = 1000

func cut(s string) string {
	if len(s) <= maxShown {
		return s
	}
	n := 0
	for i := range s {
		if n++; n > maxShown {
			return s[:i] + "…"
		}
	}
	return s
}

// semver accepts three parts of digits, as Python's str.isdigit knows them.
func semver(s string) bool {
	parts := strings.Split(s, ".")
	if len(parts) != 3 {
		return false
	}
	for _, p := range parts {
		if p == "" || strings.IndexFunc(p, func(r rune) bool { return !unicode.Is(unicode.Nd, r) && !unicode.Is(otherDigits, r) }) >= 0 {
			return false
		}
	}
	return true
}

// otherDigits are digits that are not decimal: superscripts, circled ones ….
var otherDigits = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0xb2, 0xb3, 1},
		{0xb9, 0xb9, 1},
		{0x1369, 0x1371, 1},
		{0x19da, 0x19da, 1},
		{0x2070, 0x2070, 1},
		{0x2074, 0x2079, 1},
		{0x2080, 0x2089, 1},
		{0x2460, 0x2468, 1},
		{0x2474, 0x247c, 1},
		{0x2488, 0x2490, 1},
		{0x24ea, 0x24ea, 1},
		{0x24f5, 0x24fd, 1},
		{0x24ff, 0x24ff, 1},
		{0x2776, 0x277e, 1},
		{0x2780, 0x2788, 1},
		{0x278a, 0x2792, 1},
	},
	R32:         []unicode.Range32{{0x10a40, 0x10a43, 1}, {0x10e60, 0x10e68, 1}, {0x11052, 0x1105a, 1}, {0x1f100, 0x1f10a, 1}},
	LatinOffset: 2,
}

func issuesS1(v Value, size int) []string {
	if v.Kind != Object {
		return []string{"pack must be a JSON object"}
	}
	issues := []string{}
	if sv := v.Get("schema_version"); !isOne(sv) {
		issues = append(issues, "schema_version must be 1, got "+cut(sv.Text()))
	}
	if files := v.Get("files"); files.Kind != Object {
		issues = append(issues, "missing or invalid 'files' dict")
	} else {
		switch skill := files.Get(SkillFile); {
		case skill.Kind == Absent:
			issues = append(issues, "files must contain 'SKILL.md'")
		case skill.Kind != String:
			issues = append(issues, "files['SKILL.md'] must be a string")
		case blank(skill.Str):
			issues = append(issues, "SKILL.md must not be empty")
		}
	}
	if size > MaxPack {
		issues = append(issues, fmt.Sprintf("pack size %d bytes exceeds limit (%d)", size, MaxPack))
	}
	return issues
}

// pySpace are the characters that Python's str methods count as white space.
func pySpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

func blank(s string) bool { return strings.TrimFunc(s, pySpace) == "" }

// BuildOptions say what Build puts in a pack.
type BuildOptions struct {
	Policy  string            // AGENTS.md
	Soul    string            // SOUL.md, if not empty
	Files   map[string]string // others, by name
	Name    string            // default my-pack
	Version string            // default 1.0.0
	Suite   string            // default clawbench_v1
	Allow   []string          // default exec, slack, memory_search, memory_get, read
	Deny    []string          // default admin_*, shell
	Stop    []string          // stop_rules, if any
}

// Build makes a pack of schema OPP v1. It does not check it.
func Build(o BuildOptions) *Pack {
	def := func(s *string, d string) {
		if *s == "" {
			*s = d
		}
	}
	def(&o.Name, "my-pack")
	def(&o.Version, "1.0.0")
	def(&o.Suite, "clawbench_v1")
	if o.Allow == nil {
		o.Allow = []string{"exec", "slack", "memory_search", "memory_get", "read"}
	}
	if o.Deny == nil {
		o.Deny = []string{"admin_*", "shell"}
	}
	files := map[string]any{PolicyFile: o.Policy}
	if o.Soul != "" {
		files["SOUL.md"] = o.Soul
	}
	for name, text := range o.Files {
		files[name] = text
	}
	fields := map[string]any{
		"schema_version": 1,
		"files":          files,
		"tool_policy":    map[string]any{"allow": o.Allow, "deny": o.Deny},
		"metadata":       map[string]any{"pack_name": o.Name, "pack_version": o.Version, "target_suite": o.Suite},
	}
	if len(o.Stop) > 0 {
		fields["stop_rules"] = o.Stop
	}
	return New(Of(fields))
}

// BuildS1 makes a pack of schema s1.
func BuildS1(skill string) *Pack {
	return New(Of(map[string]any{"schema_version": 1, "files": map[string]any{SkillFile: skill}}))
}
