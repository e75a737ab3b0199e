package distill

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client/sdk"
	"github.com/agon-arena/agon/internal/disk"
)

// Python is the virtual environment that trains.
type Python struct {
	// Given is an interpreter that has the packages already (AGON_DISTILL_PYTHON);
	// "" has an environment made below Home.
	Given string
	Home  string
	// Interpreter makes it; "" takes the newest python3 that is here.
	Interpreter string
	// Torch is what is installed as torch: a requirement or the path of a wheel
	// (AGON_INTEROP_TORCH); "" is the pinned one, "0" none.
	Torch string
	// Say is told what is being done; it may be nil.
	Say func(format string, args ...any)
}

// needed is what an environment takes on disk, in bytes: torch's wheel for Linux
// brings CUDA's libraries.
const needed = 9 << 30

func (p Python) requirements() []string {
	list := append([]string(nil), sdk.Requirements...)
	if p.Torch != "" && p.Torch != "1" {
		list[0] = p.Torch
	}
	return list
}

// dir is where the environment stands: other pins are another one.
func (p Python) dir() string {
	sum := sha256.Sum256([]byte(strings.Join(p.requirements(), "\n")))
	return filepath.Join(p.Home, "trainers-"+hex.EncodeToString(sum[:6]))
}

// find returns the interpreter that trains, and whether it stands.
func (p Python) find() (string, bool) {
	if p.Given != "" {
		_, err := exec.LookPath(p.Given)
		return p.Given, err == nil
	}
	path := filepath.Join(p.dir(), "bin", "python")
	_, err := os.Stat(path)
	return path, err == nil
}

// maker is the interpreter that environments are made with: 3.10 or newer, with venv.
func (p Python) maker() (string, error) {
	list := []string{p.Interpreter}
	if p.Interpreter == "" {
		list = []string{"python3.13", "python3.12", "python3.11", "python3.10", "python3"}
	}
	for _, name := range list {
		path, err := exec.LookPath(name)
		if err == nil && exec.Command(path, "-c", "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))").Run() == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no Python 3.10 or newer with venv among %s (Debian: apt-get install python3-venv)", strings.Join(list, ", "))
}

// check says what keeps an environment from being made or used; "": nothing.
func (p Python) check(ready bool) string {
	switch {
	case ready:
		return ""
	case p.Given != "":
		return fmt.Sprintf("there is no %s", p.Given)
	case p.Torch == "0":
		return "AGON_INTEROP_TORCH=0 leaves torch out"
	}
	if _, err := p.maker(); err != nil {
		return err.Error()
	}
	at := p.Home
	for {
		if _, err := os.Stat(at); err == nil || filepath.Dir(at) == at {
			break
		}
		at = filepath.Dir(at)
	}
	if free, _, err := disk.Room(at); err == nil && free < needed {
		return fmt.Sprintf("%s has %d MiB free, an environment with torch takes %d", at, free>>20, needed>>20)
	}
	return ""
}

// Ensure makes the environment if it does not stand yet, and returns its interpreter.
func (p Python) Ensure(ctx context.Context) (string, error) {
	path, ready := p.find()
	if ready {
		return path, nil
	}
	if why := p.check(false); why != "" {
		return "", &agon.Error{Code: "no_python", Status: 409, Field: "python", Message: why}
	}
	maker, err := p.maker()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(p.Home, 0o755); err != nil {
		return "", fmt.Errorf("make the trainers' environment: %w", err)
	}
	// Made beside its place and then renamed: one that stands is whole.
	tmp, err := os.MkdirTemp(p.Home, ".trainers-")
	if err != nil {
		return "", fmt.Errorf("make the trainers' environment: %w", err)
	}
	defer os.RemoveAll(tmp)
	for _, args := range [][]string{
		{maker, "-m", "venv", tmp},
		append([]string{filepath.Join(tmp, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"}, p.requirements()...),
	} {
		if p.Say != nil {
			p.Say("%s", strings.Join(args, " "))
		}
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		if b, err := cmd.CombinedOutput(); err != nil {
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			return "", &agon.Error{Code: "no_python", Status: 409, Field: "python", Message: fmt.Sprintf("%s failed: %s", args[2], last(b)), Mend: "install them elsewhere and name that interpreter with AGON_DISTILL_PYTHON"}
		}
	}
	if err := os.Rename(tmp, p.dir()); err != nil && !errors.Is(err, os.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return "", fmt.Errorf("make the trainers' environment: %w", err)
	}
	path, _ = p.find()
	return path, nil
}

// last is the end of a program's output.
func last(b []byte) string {
	s := strings.TrimSpace(string(b))
	if len(s) > 600 {
		s = "…" + s[len(s)-600:]
	}
	return s
}
