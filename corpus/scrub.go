package corpus

import (
	"encoding/json"
	"regexp"
	"strings"
)

// What is scrubbed, by name. Patterns are tried in this order; what one has
// replaced no other sees.
var patterns = []struct {
	name string
	// hint must stand in a text before the expression is tried: it is what makes scrubbing fast.
	hint []string
	re   *regexp.Regexp
}{
	{"private_key", []string{"PRIVATE KEY"}, regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`)},
	{"api_key", []string{"sk-", "sk_", "rk_", "pk_", "ghp_", "gho_", "ghs_", "ghu_", "github_pat_", "glpat-", "AKIA", "ASIA", "AIza", "xox", "hf_", "npm_", "pypi-", "SG.", "cpk_"}, regexp.MustCompile(
		`\b(?:sk-[A-Za-z0-9_-]{16,}|[srp]k_(?:live|test)_[A-Za-z0-9]{16,}|gh[opsu]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|A[KS]IA[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|xox[abprs]-[A-Za-z0-9-]{10,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|cpk_[A-Za-z0-9.]{20,})`)},
	{"jwt", []string{"eyJ"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`)},
	{"bearer", []string{"earer ", "EARER "}, regexp.MustCompile(`(?i)\bbearer\s+[A-Za-z0-9._~+/=-]{16,}`)},
	{"password", []string{"assw", "ASSW", "ecret", "ECRET", "oken", "OKEN", "pi_key", "PI_KEY", "pikey", "piKey"}, regexp.MustCompile(`(?i)\b(?:password|passwd|secret|api_?key|access_?token|auth_?token)["']?\s*[:=]\s*["']?[^\s"',;]{8,}`)},
	{"url_credentials", []string{"@"}, regexp.MustCompile(`\b[a-z][a-z0-9+.-]*://[^\s/:@"']+:[^\s/@"']+@`)},
	{"email", []string{"@"}, regexp.MustCompile(`\b[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,24}\b`)},
	{"card", nil, regexp.MustCompile(`\b(?:4\d{3}|5[1-5]\d{2}|3[47]\d{2}|6011)[ -]?\d{4}[ -]?\d{4}[ -]?\d{3,4}\b`)},
	{"phone", []string{"+"}, regexp.MustCompile(`\+\d{1,3}[ .-]?\(?\d{1,4}\)?(?:[ .-]?\d{2,4}){2,4}\b`)},
	{"iban", nil, regexp.MustCompile(`\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b`)},
}

// Scrubber removes secrets and personal data from texts and counts what it
// removed, by pattern.
type Scrubber struct{ Counts map[string]int }

// NewScrubber returns a scrubber that has found nothing yet.
func NewScrubber() *Scrubber { return &Scrubber{Counts: map[string]int{}} }

// Text returns s with every match replaced by its pattern's name.
func (c *Scrubber) Text(s string) string {
	for _, p := range patterns {
		if !hinted(s, p.hint) {
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
// with sorted keys; what is no JSON is scrubbed as text into a JSON string.
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
