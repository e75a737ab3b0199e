package corpus

import (
	"encoding/json"
	"regexp"
	"strings"
	"sync"
)

type pattern struct {
	name string
	// hint must stand in a text before the expression is tried: it is what makes scrubbing fast.
	hint []string
	re   *regexp.Regexp
	// may is asked besides: what it refuses the expression cannot match.
	may func(string) bool
}

// patterns are what is scrubbed, by name, in the order in which they are tried;
// what one has replaced no other sees. They are compiled when a text is first
// scrubbed, and not by every command that starts.
var patterns = sync.OnceValue(func() []pattern {
	return []pattern{
		{"private_key", []string{"PRIVATE KEY"}, regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), nil},
		{"api_key", []string{"sk-", "sk_", "rk_", "pk_", "ghp_", "gho_", "ghs_", "ghu_", "github_pat_", "glpat-", "AKIA", "ASIA", "AIza", "xox", "hf_", "npm_", "pypi-", "SG.", "cpk_"}, regexp.MustCompile(
			`\b(?:sk-[A-Za-z0-9_-]{16,}|[srp]k_(?:live|test)_[A-Za-z0-9]{16,}|gh[opsu]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|A[KS]IA[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|xox[abprs]-[A-Za-z0-9-]{10,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|cpk_[A-Za-z0-9.]{20,})`), nil},
		{"jwt", []string{"eyJ"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`), nil},
		{"bearer", []string{"earer ", "EARER "}, regexp.MustCompile(`(?i)\bbearer\s+[A-Za-z0-9._~+/=-]{16,}`), nil},
		{"password", []string{"assw", "ASSW", "ecret", "ECRET", "oken", "OKEN", "pi_key", "PI_KEY", "pikey", "piKey"}, regexp.MustCompile(`(?i)\b(?:password|passwd|secret|api_?key|access_?token|auth_?token)["']?\s*[:=]\s*["']?[^\s"',;]{8,}`), nil},
		{"url_credentials", []string{"@"}, regexp.MustCompile(`\b[a-z][a-z0-9+.-]*://[^\s/:@"']+:[^\s/@"']+@`), nil},
		{"email", []string{"@"}, regexp.MustCompile(`\b[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,24}\b`), nil},
		{"card", nil, regexp.MustCompile(`\b(?:4\d{3}|5[1-5]\d{2}|3[47]\d{2}|6011)[ -]?\d{4}[ -]?\d{4}[ -]?\d{3,4}\b`), digitRun},
		{"phone", []string{"+"}, regexp.MustCompile(`\+\d{1,3}[ .-]?\(?\d{1,4}\)?(?:[ .-]?\d{2,4}){2,4}\b`), plusDigit},
		{"iban", nil, regexp.MustCompile(`\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b`), ibanStart},
	}
})

// Scrubber removes secrets and personal data from texts and counts what it
// removed, by pattern.
type Scrubber struct {
	Counts map[string]int
	tools  *scrubbedTools
}

// scrubbedTools are shared by the scrubbers that one was forked into.
type scrubbedTools struct {
	mu sync.Mutex
	by map[string]scrubbedTool
}

// scrubbedTool is a definition that was scrubbed before: every run of an agent offers the same.
type scrubbedTool struct {
	out    json.RawMessage
	counts map[string]int
}

// maxKnownTools bounds what is remembered.
const maxKnownTools = 10_000

// tool is JSON for definitions of tools.
func (c *Scrubber) tool(raw json.RawMessage) json.RawMessage {
	c.tools.mu.Lock()
	t, ok := c.tools.by[string(raw)]
	c.tools.mu.Unlock()
	if !ok {
		one := NewScrubber()
		t = scrubbedTool{one.JSON(raw), one.Counts}
		c.tools.mu.Lock()
		if len(c.tools.by) >= maxKnownTools {
			clear(c.tools.by)
		}
		c.tools.by[string(raw)] = t
		c.tools.mu.Unlock()
	}
	c.add(t.counts)
	return t.out
}

// fork is a scrubber that counts for itself, for another goroutine.
func (c *Scrubber) fork() *Scrubber { return &Scrubber{Counts: map[string]int{}, tools: c.tools} }

// add counts what another scrubber removed.
func (c *Scrubber) add(counts map[string]int) {
	for k, n := range counts {
		c.Counts[k] += n
	}
}

// NewScrubber returns a scrubber that has found nothing yet.
func NewScrubber() *Scrubber {
	return &Scrubber{Counts: map[string]int{}, tools: &scrubbedTools{by: map[string]scrubbedTool{}}}
}

// Text returns s with every match replaced by its pattern's name.
func (c *Scrubber) Text(s string) string {
	for _, p := range patterns() {
		if !hinted(s, p.hint) || (p.may != nil && !p.may(s)) {
			continue
		}
		n := 0
		t := p.re.ReplaceAllStringFunc(s, func(m string) string {
			if p.name == "card" && !luhn(m) {
				return m
			}
			if p.name == "iban" && !iban(m) {
				return m
			}
			n++
			return "[" + p.name + " removed]"
		})
		if n > 0 {
			c.Counts[p.name] += n
			s = t
		}
	}
	return s
}

// Secret is a key or password in a text.
type Secret struct {
	Name string // private_key, api_key, jwt, bearer, password or url_credentials
	At   int    // byte at which it begins
	Text string
}

// secretNames are the patterns that find keys; the others find personal data.
var secretNames = map[string]bool{"private_key": true, "api_key": true, "jwt": true, "bearer": true, "password": true, "url_credentials": true}

// Secrets finds what a Scrubber would remove of s as a key or a password.
func Secrets(s string) []Secret {
	var out []Secret
	for _, p := range patterns() {
		if !secretNames[p.name] || !hinted(s, p.hint) {
			continue
		}
		for _, at := range p.re.FindAllStringIndex(s, -1) {
			out = append(out, Secret{p.name, at[0], s[at[0]:at[1]]})
		}
	}
	return out
}

func hinted(s string, hints []string) bool {
	if hints == nil {
		return strings.ContainsAny(s, "0123456789")
	}
	for _, h := range hints {
		if strings.Contains(s, h) {
			return true
		}
	}
	return false
}

// digitRun reports 13 digits with at most one sign between each two.
func digitRun(s string) bool {
	n, gap := 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			if n++; n >= 13 {
				return true
			}
			gap = 0
		case (c == ' ' || c == '-') && gap == 0:
			gap++
		default:
			n, gap = 0, 0
		}
	}
	return false
}

// plusDigit reports a plus sign before a digit.
func plusDigit(s string) bool {
	for i := strings.IndexByte(s, '+'); i >= 0; {
		if i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9' {
			return true
		}
		j := strings.IndexByte(s[i+1:], '+')
		if j < 0 {
			return false
		}
		i += 1 + j
	}
	return false
}

// ibanStart reports two capitals before two digits.
func ibanStart(s string) bool {
	upper := func(c byte) bool { return c >= 'A' && c <= 'Z' }
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	for i := 0; i+3 < len(s); i++ {
		if digit(s[i+3]) && digit(s[i+2]) && upper(s[i+1]) && upper(s[i]) {
			return true
		}
	}
	return false
}

func luhn(s string) bool {
	sum, double, n := 0, false, 0
	for i := len(s) - 1; i >= 0; i-- {
		d := int(s[i]) - '0'
		if d < 0 || d > 9 {
			continue
		}
		n++
		if double {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
		double = !double
	}
	return n >= 13 && sum%10 == 0
}

func iban(s string) bool {
	s = strings.ReplaceAll(s, " ", "")
	if len(s) < 15 || len(s) > 34 {
		return false
	}
	rest := 0
	for _, r := range s[4:] + s[:4] {
		switch {
		case r >= '0' && r <= '9':
			rest = (rest*10 + int(r-'0')) % 97
		case r >= 'A' && r <= 'Z':
			rest = (rest*100 + int(r-'A') + 10) % 97
		default:
			return false
		}
	}
	return rest == 1
}

// JSON scrubs every string of a JSON document, keys included, and returns it
// with sorted keys; what is not JSON is scrubbed as text into a JSON string.
func (c *Scrubber) JSON(raw json.RawMessage) json.RawMessage {
	var v any
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if d.Decode(&v) != nil || d.More() {
		b, _ := json.Marshal(c.Text(string(raw))) // a string always encodes
		return b
	}
	b, err := canonical(c.value(v))
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}

func (c *Scrubber) value(v any) any {
	switch x := v.(type) {
	case string:
		return c.Text(x)
	case []any:
		for i := range x {
			x[i] = c.value(x[i])
		}
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			out[c.Text(k)] = c.value(e)
		}
		return out
	}
	return v
}

// message scrubs all of a message. Arguments are JSON in a string: they are
// scrubbed inside, so that they stay JSON.
func (c *Scrubber) message(m Message) Message {
	m.Content, m.Reasoning, m.Name = c.Text(m.Content), c.Text(m.Reasoning), c.Text(m.Name)
	m.ToolCallID = c.Text(m.ToolCallID)
	calls := make([]ToolCall, 0, len(m.ToolCalls))
	for _, t := range m.ToolCalls {
		t.ID, t.Function.Name = c.Text(t.ID), c.Text(t.Function.Name)
		if json.Valid([]byte(t.Function.Arguments)) {
			t.Function.Arguments = string(c.JSON(json.RawMessage(t.Function.Arguments)))
		} else {
			t.Function.Arguments = c.Text(t.Function.Arguments)
		}
		calls = append(calls, t)
	}
	m.ToolCalls = nil
	if len(calls) > 0 {
		m.ToolCalls = calls
	}
	return m
}
