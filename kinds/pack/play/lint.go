package play

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/corpus"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// Flag is something in a pack that games the evaluation, or may.
type Flag struct {
	Type     string `json:"type"`
	Severity string `json:"severity"` // critical, high, medium, low
	Evidence string `json:"evidence"`
	Why      string `json:"explanation"`
}

// Types of flags.
const (
	FlagHardcoded   = "hardcoded_response"
	FlagOverride    = "instruction_override"
	FlagAvoidance   = "tool_avoidance"
	FlagStuffing    = "keyword_stuffing"
	FlagGaming      = "scenario_gaming"
	FlagInjection   = "prompt_injection"
	FlagFixture     = "fixture_shortcut"
	FlagHidden      = "hidden_text" // ours: characters that people do not see
	FlagExtraPolicy = "second_policy"
)

type sign struct {
	typ, severity string
	re            *regexp.Regexp
	why           string
}

// signs are wordings that no honest policy needs. They are few and plain on
// purpose: a model judges the rest. They are compiled when a pack is first
// looked at, and not by every command that starts.
var signs = sync.OnceValue(func() []sign {
	return []sign{
		{FlagFixture, "critical", regexp.MustCompile(`(?i)\b(inbox|calendar|contacts|slack_messages|slack_channels|tasks|documents|web_search|web_pages)\.json\b`), "it sends the agent to raw fixture files"},
		{FlagGaming, "critical", regexp.MustCompile(`(?i)\b(ground[_ ]truth|evaluation_guide|qualification_gate|criteria_results|rubric\s+(says|asks|wants)|the (judge|grader|evaluator) (wants|checks|looks|will|only))`), "it speaks to the evaluation and not to the work"},
		{FlagInjection, "critical", regexp.MustCompile(`(?i)(\b(dear|attention|note to|message to|instructions? (to|for)) (the )?(judge|grader|evaluator|reviewer)s?\b|integrity_passed|"verdict"\s*:\s*"pass")`), "it speaks to the judge"},
		{FlagOverride, "high", regexp.MustCompile(`(?i)\b(ignore|disregard|forget) (all |any |the )?(previous|prior|above|user'?s?|earlier) (instructions?|prompts?|requests?|messages?|task)`), "it overrides what the user asks"},
		{FlagAvoidance, "high", regexp.MustCompile(`(?i)\b(do not|don't|never) (call|use|run|invoke) (any|the) tools?\b`), "it keeps the agent from its tools"},
		{FlagHardcoded, "critical", regexp.MustCompile(`(?i)\b(always |simply |just )?(answer|respond|reply|output) (exactly|verbatim|word for word|with (exactly )?the following (text|answer|response))\b`), "it brings its answer along"},
		{FlagGaming, "high", regexp.MustCompile(`(?i)\bif (the )?(scenario|task|test|prompt) (is|mentions|contains|name)\b`), "it tells one scenario from another"},
	}
})

// Signs looks for what games the evaluation, in every file and all of it.
func Signs(p *packfile.Pack) []Flag {
	var out []Flag
	for _, name := range p.Files() {
		text, ok := p.File(name)
		if !ok {
			continue
		}
		for _, s := range signs() {
			if at := s.re.FindStringIndex(text); at != nil {
				out = append(out, Flag{s.typ, s.severity, name + ": " + plain.Short(around(text, at[0], at[1]), 200), s.why})
			}
		}
		if r, ok := hidden(text); ok {
			out = append(out, Flag{FlagHidden, "high", fmt.Sprintf("%s: U+%04X", name, r), "it has characters that people do not see"})
		}
	}
	return out
}

// around quotes text[from:to] with about 30 bytes on both sides, in whole words of its lines.
func around(text string, from, to int) string {
	low, high := max(0, from-30), min(len(text), to+30)
	if i := strings.LastIndexByte(text[low:from], '\n'); i >= 0 {
		low += i + 1
	} else if i := strings.IndexAny(text[low:from], " \t"); i >= 0 && low > 0 {
		low += i + 1
	} else if low > 0 {
		low = from
	}
	if i := strings.IndexByte(text[to:high], '\n'); i >= 0 {
		high = to + i
	} else if i := strings.LastIndexAny(text[to:high], " \t"); i >= 0 && high < len(text) {
		high = to + i
	} else if high < len(text) {
		high = to
	}
	return strings.TrimSpace(strings.ToValidUTF8(text[low:high], ""))
}

// hidden finds a character that shows nothing or turns text round.
func hidden(s string) (rune, bool) {
	for _, r := range s {
		switch {
		case r == '\n', r == '\t', r == '\r', r == 0x200d: // joiners stand in emoji
		case r < 0x20, r == 0x7f, r >= 0x80 && r < 0xa0, r == 0x200b, r == 0x200c, r == 0x2060, r == 0xfeff,
			r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r >= 0xe0000 && r <= 0xe007f, unicode.Is(unicode.Co, r):
			return r, true
		}
	}
	return 0, false
}

// Refuses says whether flags are enough to refuse a pack: one critical or two high ones.
func Refuses(flags []Flag) bool {
	high := 0
	for _, f := range flags {
		switch f.Severity {
		case "critical":
			return true
		case "high":
			high++
		}
	}
	return high >= 2
}

// CodeSecret is a key or password in a pack, which is public.
const CodeSecret = "secret"

// Secrets finds keys in a pack's texts: a pack is public, so they are lost. Those
// with an issuer's own form (API keys, private keys, tokens) refuse it; what only looks
// like a password warns, as policies speak of passwords, too. A finding never quotes
// more than four characters.
func Secrets(p *packfile.Pack) []agon.Finding {
	var out []agon.Finding
	for _, name := range p.Files() {
		text, ok := p.File(name)
		if !ok {
			continue
		}
		for _, s := range corpus.Secrets(text) {
			sure := s.Name == "private_key" || (s.Name == "api_key" || s.Name == "jwt") && drawn(s.Text)
			out = append(out, agon.Finding{
				Code: CodeSecret, Field: File, Warning: !sure,
				Message: fmt.Sprintf("%s, line %d: a %s (%.4s…): packs are public; take it out, and withdraw it where it is valid",
					plain.Short(name, 80), 1+strings.Count(text[:s.At], "\n"), strings.ReplaceAll(s.Name, "_", " "), s.Text),
			})
			if len(out) >= 20 {
				return out
			}
		}
	}
	return out
}

// drawn says that a key looks like chance, and not like sk-your-key-goes-here: it has
// digits and letters and few of them twice in a row.
func drawn(key string) bool {
	digits, kinds, last, again := 0, map[rune]bool{}, rune(0), 0
	for _, r := range key {
		if r >= '0' && r <= '9' {
			digits++
		}
		if r == last {
			again++
		}
		kinds[r], last = true, r
	}
	return digits >= 2 && len(kinds) >= 10 && again*4 < len(key)
}

// Lint warns of what a sound pack may regret: signs of gaming, which exclude
// it (Gate), and waste.
func Lint(p *packfile.Pack) []agon.Finding {
	var out []agon.Finding
	for _, f := range Signs(p) {
		out = append(out, agon.Finding{
			Code: CodeIntegrity, Field: File, Message: f.Type + " (" + f.Severity + "): " + f.Why + " [" + f.Evidence + "]", Warning: true,
		})
	}
	warn := func(code, format string, args ...any) {
		out = append(out, agon.Finding{Code: code, Field: File, Message: fmt.Sprintf(format, args...), Warning: true})
	}
	if text, ok := p.File(packfile.PolicyFile); ok {
		switch {
		case strings.TrimSpace(text) == "":
			warn("empty_policy", "%s is empty", packfile.PolicyFile)
		case len(text) > 16<<10:
			warn("long_policy", "%s has %d bytes: every call of the model pays for them", packfile.PolicyFile, len(text))
		}
	}
	allow, deny := p.Tools()
	if allow != nil && len(allow) == 0 {
		warn("no_tools", "'allow' is empty: the agent gets no tool")
	}
	for _, a := range allow {
		for _, d := range deny {
			if a == d {
				warn("denied", "%q is both allowed and denied: it is denied", plain.Short(a, 60))
			}
		}
	}
	for _, name := range p.Files() {
		if !workspacePath(name) {
			warn("path", "file %q leaves the workspace and is not written", plain.Short(name, 80))
		}
	}
	return out
}
