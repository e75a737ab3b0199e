package play

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/copycat"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/plain"
)

// MaxAgentBytes bounds the script, in bytes.
const MaxAgentBytes = 256_000

// Finding codes of Check.
const (
	FindNoFile     = kind.FindNoFile
	FindExtraFile  = kind.FindExtraFile
	FindNotRegular = kind.FindNotRegular
	FindEmpty      = "empty"
	FindTooLarge   = "too_large"
	FindNotText    = "not_text"
	FindNotUTF8    = "not_utf8"
	FindSyntax     = "syntax"
	FindNoEntry    = "no_entrypoint" // warning: a name may be made at run time
	FindEra        = "wrong_era"
	FindOpaque     = "opaque" // where the arena wants transparent scripts
)

// OptionScripts is an arena's word on what scripts may do to themselves.
const (
	OptionScripts      = "scripts"
	ScriptsAny         = "any"
	ScriptsTransparent = "transparent" // copycat.Opacities finds nothing
)

// Options implements kind.Chooser.
func (k *Kind) Options() map[string][]string { return scriptOptions() }

func scriptOptions() map[string][]string {
	return map[string][]string{OptionScripts: {ScriptsAny, ScriptsTransparent}}
}

// transparently adds to check what the arena's policy of scripts finds.
func transparently(a *agon.Arena, check func(src []byte) []agon.Finding) func(src []byte) []agon.Finding {
	if a == nil || a.Options[OptionScripts] != ScriptsTransparent {
		return check
	}
	return func(src []byte) []agon.Finding {
		out := check(src)
		if slices.ContainsFunc(out, func(f agon.Finding) bool { return !f.Warning }) {
			return out // it cannot be read
		}
		places, err := copycat.Opacities(string(src))
		if err != nil {
			return finding(FindSyntax, "agent.py is not Python 3.11: %s", plain.Short(err.Error(), 300))
		}
		for _, p := range places {
			f := finding(FindOpaque, "agent.py line %d: %s: this arena wants scripts that a reader sees through", p.Line, p.What)
			f[0].Limit = "no code made at run time, no reflection; see the options of the kind"
			out = append(out, f...)
		}
		return out
	}
}

// Check decides whether files hold one Python script. The script is never run.
func (k *Kind) Check(ctx context.Context, a *agon.Arena, files fs.FS) ([]agon.Finding, error) {
	return kind.CheckOneFile(ctx, files, AgentFile, MaxAgentBytes, transparently(a, CheckSource))
}

// Structure implements kind.Copier: scripts that differ only in names, layout,
// order of helpers and padding are copies.
func (k *Kind) Structure(files fs.FS) (string, error) {
	src, err := kind.ReadLimited(files, AgentFile, MaxAgentBytes+1)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", AgentFile, err)
	}
	return copycat.StructureHash(string(src))
}

// registers finds a decorator that may register the entrypoint.
var registers = lazyregexp.New(`(?m)^[ \t]*@[^\n]*entrypoint[^\n]*\(|entrypoint\s*\(`)

// queryEra finds what only scripts of the query era have: nothing of them would
// ever be called here, so that they would score 0 without a word.
var queryEra = lazyregexp.New(`(?m)^[ \t]*(from[ \t]+(harnyx|caster)_miner_sdk\.query[ \t]+import\b|import[ \t]+(harnyx|caster)_miner_sdk\.query\b|@[^\n]*\bentrypoint\([ \t]*["']query["'])`)

// CheckSource checks the bytes of one script. A byte more than MaxAgentBytes
// is enough to tell that it is too large.
func CheckSource(src []byte) []agon.Finding {
	if f := checkText(src, MaxAgentBytes); f != nil {
		return f
	}
	if !strings.Contains(string(src), Entrypoint) && queryEra().Match(src) {
		return finding(FindEra, "agent.py is of the query era: it registers query, or imports the SDK's Query; this arena plays the claim era: register %s (@entrypoint(%q))", Entrypoint, Entrypoint)
	}
	if !registers().Match(src) || !strings.Contains(string(src), Entrypoint) {
		f := finding(FindNoEntry, "agent.py does not seem to register %s (@entrypoint(%q)); if it does not, every claim scores 0", Entrypoint, Entrypoint)
		f[0].Warning = true
		return f
	}
	return nil
}

func finding(code, format string, args ...any) []agon.Finding {
	return []agon.Finding{{Code: code, Field: AgentFile, Message: fmt.Sprintf(format, args...)}}
}

// checkText wants Python 3.11 of at most limit bytes.
func checkText(src []byte, limit int) []agon.Finding {
	switch {
	case len(src) > limit:
		f := finding(FindTooLarge, "agent.py is too large")
		f[0].Limit = fmt.Sprintf("%d bytes", limit)
		return f
	case len(bytes.TrimSpace(src)) == 0:
		return finding(FindEmpty, "agent.py is empty")
	case bytes.IndexByte(src, 0) >= 0:
		return finding(FindNotText, "agent.py holds a NUL byte")
	case !utf8.Valid(src):
		return finding(FindNotUTF8, "agent.py is not UTF-8")
	}
	if err := copycat.CheckPython(string(src)); err != nil {
		return finding(FindSyntax, "agent.py is not Python 3.11: %s", plain.Short(err.Error(), 300))
	}
	return nil
}
