package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/ui/cli/iostreams"
	"github.com/agon-arena/agon/ui/cli/output"
)

// Exit codes. Scripts may rely on them.
const (
	CodeOK          = 0
	CodeFailed      = 1
	CodeUsage       = 2
	CodePartly      = 3
	CodeNotAllowed  = 4 // no key, a bad signature, no right
	CodeNotFound    = 5
	CodeConflict    = 6
	CodeRefused     = 7 // a rule said no
	CodePending     = 8 // --wait ended early
	CodeOurs        = 9 // a fault of ours or of a provider
	CodeInterrupted = 130
)

// Exit ends a command with a code. Err is printed if there is one; without one
// the command has said what there is to say.
type Exit struct {
	Code int
	Err  error
}

func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Exit) Unwrap() error { return e.Err }

// ExitCode maps an error to the exit code of the process.
func ExitCode(err error) int {
	var x *Exit
	switch {
	case err == nil:
		return CodeOK
	case errors.As(err, &x):
		return x.Code
	case errors.Is(err, context.Canceled):
		return CodeInterrupted
	}
	e := Describe(err)
	switch {
	case e.Code == "usage" || e.Code == "bad_config" || e.Code == "bad_url":
		return CodeUsage
	case e.Code == "pending":
		return CodePending
	}
	switch s := e.Status; {
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		return CodeNotAllowed
	case s == http.StatusNotFound || s == http.StatusGone:
		return CodeNotFound
	case s == http.StatusConflict || s == http.StatusPreconditionFailed:
		return CodeConflict
	case s == http.StatusUnprocessableEntity || s == http.StatusRequestEntityTooLarge ||
		s == http.StatusPaymentRequired || s == http.StatusTooManyRequests:
		return CodeRefused
	case s == http.StatusBadRequest:
		return CodeUsage
	case s >= 500 || e.Fault.Ours():
		return CodeOurs
	}
	return CodeFailed
}

// Describe makes one coded error of any error: the first *agon.Error in it, or
// what its sentinel means.
func Describe(err error) *agon.Error {
	var coded *agon.Error
	if errors.As(err, &coded) {
		return coded
	}
	for _, s := range []struct {
		is     error
		code   string
		status int
		mend   string
	}{
		{auth.ErrKeyfileMissing, "no_key", http.StatusUnauthorized, "make a key with `agon key new`, or name one with --wallet.name and --wallet.hotkey"},
		{auth.ErrKeyfileEncrypted, "key_encrypted", http.StatusUnauthorized, "run it in a terminal, which asks for the password, or start `agon key agent` and set AGON_KEY_AGENT"},
		{auth.ErrWrongPassword, "wrong_password", http.StatusUnauthorized, "check the password; a damaged file looks the same"},
		{auth.ErrColdkey, "coldkey", http.StatusUnauthorized, "name a hotkey: coldkeys are never needed here"},
		{auth.ErrKeyfileOpen, "key_open", http.StatusUnauthorized, "take others' rights away, as the message says"},
		{auth.ErrPublicOnly, "key_public", http.StatusUnauthorized, "name a wallet whose hotkey file holds the secret"},
		{auth.ErrKeyfileExists, "key_exists", http.StatusConflict, "choose another name; agon never replaces a key"},
		{auth.ErrBadSignature, "bad_signature", 0, "check message, address and signature"},
		{calc.ErrUnknownRule, "usage", http.StatusBadRequest, "list the rules with `agon calc --list`"},
		{fs.ErrNotExist, "file_not_found", http.StatusNotFound, "check the path"},
		{fs.ErrPermission, "no_permission", http.StatusForbidden, "check who owns the path, or run as that user"},
	} {
		if errors.Is(err, s.is) {
			return &agon.Error{Code: s.code, Status: s.status, Message: err.Error(), Mend: s.mend, Err: err}
		}
	}
	return &agon.Error{Code: "failed", Message: err.Error(), Err: err}
}

// problemOf is err as a problem document.
func problemOf(err error) client.Problem {
	e := Describe(err)
	p := client.Problem{
		Type: "about:blank", Title: http.StatusText(e.Status), Status: e.Status, Detail: e.Message, Code: e.Code,
		Field: e.Field, Limit: e.Limit, Mend: e.Mend, Fault: e.Fault, Findings: e.Findings,
	}
	if p.Title == "" {
		p.Title = "Failed"
	}
	var re *client.RequestError
	if errors.As(err, &re) {
		p.RequestID = re.ID
	}
	if p.Mend == "" {
		p.Mend = defaultMend(ExitCode(err))
	}
	return p
}

// defaultMend says what to do about an error that does not say it itself.
func defaultMend(code int) string {
	switch code {
	case CodeUsage:
		return "see --help"
	case CodeNotAllowed:
		return "check the key with `agon key show`, and its registration with `agon doctor`"
	case CodeNotFound:
		return "check the name; `agon arena list`, `agon submission list` and `agon run list` show what there is"
	case CodeConflict:
		return "nothing was changed; look at what is there first"
	case CodeRefused:
		return "read the rules with `agon arena view ARENA`"
	case CodeOurs:
		return "this is not a fault of yours: try again later; `agon doctor` may say more"
	}
	return "run it again with -v; `agon doctor` may say more"
}

// printError tells a person, or with asJSON a program, what went wrong.
func printError(s *iostreams.IO, err error, asJSON bool) {
	var x *Exit
	if errors.As(err, &x) && x.Err == nil {
		return
	}
	if errors.Is(err, context.Canceled) {
		if !asJSON {
			s.Notef("interrupted")
		}
		return
	}
	p := problemOf(err)
	if asJSON {
		// Nowhere is left to report an error of stderr.
		_ = output.WriteJSON(s.Err, p, false)
		return
	}
	on := s.ErrColour()
	detail := p.Detail
	if p.Limit != "" && len(p.Findings) == 0 && !strings.Contains(detail, p.Limit) {
		detail += " (limit " + p.Limit + ")"
	}
	s.Notef("%s %s", iostreams.Paint(on, iostreams.Red, "error:"), plain.Line(detail))
	for _, f := range p.Findings {
		if line := findingLine(f); !f.Warning && !strings.Contains(p.Detail, strings.TrimSpace(line)) {
			s.Notef("  - %s", line)
		}
	}
	if p.Mend != "" {
		s.Notef("%s %s", iostreams.Paint(on, iostreams.Cyan, "fix:"), plain.Line(p.Mend))
	}
	if p.RequestID != "" && p.Status >= 500 {
		s.Notef("request: %s", plain.Line(p.RequestID))
	}
}

// findingLine is a finding in one line, clean.
func findingLine(f agon.Finding) string {
	s := plain.Line(f.Message)
	if f.Field != "" && !strings.Contains(f.Message, f.Field) {
		s = plain.Line(f.Field) + ": " + s
	}
	if f.Limit != "" {
		s += " (limit " + plain.Line(f.Limit) + ")"
	}
	return s
}
