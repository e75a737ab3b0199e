package session

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon/sandbox"
)

func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	h := s.with(w, r)
	if h == nil {
		return
	}
	defer s.leave(h)
	var in Exec
	if !decode(w, r, &in) {
		return
	}
	args := in.Args
	if in.Command != "" {
		args = []string{"sh", "-c", in.Command}
		if len(in.Args) > 0 {
			refuse(w, http.StatusUnprocessableEntity, "bad_field", "args", "give command or args")
			return
		}
		if h.hasBash(r.Context()) {
			args[0] = "bash"
		}
	}
	env, bad := environ(in.Env)
	cwd := in.Cwd
	if cwd == "" {
		cwd = h.Workdir
	}
	uid, whose := 0, ""
	if bad == "" {
		uid, whose = h.user(r.Context(), in.User)
	}
	field, why := "", ""
	switch {
	case len(args) == 0 || args[0] == "":
		field, why = "command", "there is none"
	case slices.ContainsFunc(args, func(a string) bool { return len(a) > maxArg || strings.ContainsRune(a, 0) }):
		field, why = "command", fmt.Sprintf("longer than %d bytes, or with a zero byte", maxArg)
	case bad != "":
		field, why = "env", bad
	case !absolute(cwd):
		field, why = "cwd", "want an absolute path"
	case !(in.TimeoutSec >= 0) || in.TimeoutSec > MaxWall:
		field, why = "timeout_sec", fmt.Sprintf("want 0 to %d", int(MaxWall))
	case whose != "":
		field, why = "user", whose
	}
	if why != "" {
		refuse(w, http.StatusUnprocessableEntity, "bad_field", field, why)
		return
	}
	wall := time.Duration(in.TimeoutSec * float64(time.Second))
	if wall <= 0 {
		wall = h.wall
	}
	stdout, stderr := &kept{limit: MaxOutput}, &kept{limit: MaxOutput}
	x, err := h.box.Exec(r.Context(), sandbox.Cmd{
		Args: args, Dir: cwd, Env: env, Stdin: bytes.NewReader(in.Stdin), Stdout: stdout, Stderr: stderr, Wall: wall, UID: uid, Untrusted: true,
	})
	if err == nil && x.Lost != "" {
		err = fmt.Errorf("%w: the command was lost: %s", sandbox.ErrHost, x.Lost)
	}
	if err != nil {
		fail(w, err)
		return
	}
	out := Result{Stdout: stdout.text(), Stderr: stderr.text(), ReturnCode: x.Code, Limit: x.Limit, Truncated: stdout.over || stderr.over, MS: x.Wall.Milliseconds()}
	if x.Limit == "wall" {
		out.ReturnCode = 124 // as timeout(1) has it
	}
	send(w, http.StatusOK, out)
}

// hasBash tells whether lines are bash's: others' commands expect it.
func (h *held) hasBash(ctx context.Context) bool {
	x, err := h.box.Exec(ctx, sandbox.Cmd{Args: []string{"sh", "-c", "command -v bash >/dev/null"}, Dir: "/", Untrusted: true})
	return err == nil && x.Code == 0
}

// user is the number of who is to run a command; 0 for the box's root.
func (h *held) user(ctx context.Context, who any) (int, string) {
	name := ""
	switch v := who.(type) {
	case nil:
		return 0, ""
	case string:
		name = v
	case float64:
		name = strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return 0, "want a name or a number"
	}
	if name == "" || name == "root" || name == "0" {
		return 0, ""
	}
	if n, err := strconv.Atoi(name); err == nil {
		if n < 1 || n >= sandbox.PauseUID {
			return 0, fmt.Sprintf("want 0 to %d", sandbox.PauseUID-1)
		}
		return n, ""
	}
	if !names().MatchString(name) {
		return 0, "want a name or a number"
	}
	var out bytes.Buffer
	x, err := h.box.Exec(ctx, sandbox.Cmd{Args: []string{"id", "-u", name}, Dir: "/", Stdout: &out, Untrusted: true})
	n, aerr := strconv.Atoi(strings.TrimSpace(out.String()))
	switch {
	case err != nil || x.Code != 0 || aerr != nil || n >= sandbox.PauseUID:
		return 0, "the box knows no user " + name
	}
	return n, ""
}

// kept keeps the start of what is written.
type kept struct {
	limit int
	b     []byte
	over  bool
}

func (k *kept) Write(p []byte) (int, error) {
	n := min(len(p), k.limit-len(k.b))
	k.b = append(k.b, p[:n]...)
	k.over = k.over || n < len(p)
	return len(p), nil
}

func (k *kept) text() string { return strings.ToValidUTF8(string(k.b), "\ufffd") }
