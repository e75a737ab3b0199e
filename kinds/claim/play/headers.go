package play

import "github.com/agon-arena/agon/engine/tools"

// PriceVersion names the seed's price table in signed receipts.
const PriceVersion = "caster-seed"

// Headers are the headers in which scripts of the seed's two eras name their
// session, the older first.
func Headers() []tools.Headers {
	return []tools.Headers{{Token: "X-Caster-Token", Session: "X-Caster-Session-Id"}, tools.DefaultHeaders}
}

// Where a script finds its tools, in either era.
const (
	headerHost  = "X-Caster-Host-Container-Url"
	headerHost2 = "X-Host-Container-Url"
)

// sessionOf is the session that a request names.
func sessionOf(get func(string) string) string {
	for _, n := range Headers() {
		if v := get(n.Session); v != "" {
			return v
		}
	}
	return ""
}

// copySession hands on the headers that name a session.
func copySession(get func(string) string, set func(string, string)) {
	for _, n := range Headers() {
		for _, name := range []string{n.Token, n.Session} {
			if v := get(name); v != "" {
				set(name, v)
			}
		}
	}
}
