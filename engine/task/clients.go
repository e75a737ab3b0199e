package task

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// client starts a client of a package index in dir and returns what it prints.
func client(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	at, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %s is not on the path; install it and try again", ErrIndexUnreachable, name)
	}
	cmd := exec.CommandContext(ctx, at, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s %s: %w: %s", ErrIndexUnreachable, name, args[0], err, tail(stderr.String(), 300))
	}
	return out.Bytes(), nil
}

var goClient = []string{"GOTOOLCHAIN=local", "GOWORK=off", "GOFLAGS=", "GO111MODULE=on"}

// GoModule downloads a module's archive by the go command, which runs nothing
// of it, in a directory that holds no module. limit is in bytes.
func GoModule(ctx context.Context, dir, module, version string, limit int64) ([]byte, error) {
	out, err := client(ctx, dir, goClient, "go", "mod", "download", "-json", module+"@"+version)
	if err != nil {
		return nil, err
	}
	var got struct{ Zip string }
	if err := json.Unmarshal(out, &got); err != nil || got.Zip == "" {
		return nil, fmt.Errorf("%w: the go command names no archive of %s@%s", ErrIndexUnreachable, module, version)
	}
	return readCapped(got.Zip, limit)
}

// NpmPackage downloads a package's archive by npm, which runs nothing of it.
func NpmPackage(ctx context.Context, dir, name, version string, limit int64) ([]byte, error) {
	tmp, err := os.MkdirTemp(dir, ".npm-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if _, err := client(ctx, tmp, nil, "npm", "pack", "--ignore-scripts", "--silent", name+"@"+version); err != nil {
		return nil, err
	}
	ents, err := os.ReadDir(tmp)
	if err != nil || len(ents) != 1 {
		return nil, fmt.Errorf("%w: npm left %d files", ErrIndexUnreachable, len(ents))
	}
	return readCapped(filepath.Join(tmp, ents[0].Name()), limit)
}

// Versions lists the published versions of a package of an index, oldest first,
// and where the index says it the day on which each was published.
func (f *Source) Versions(ctx context.Context, index, pkg string) (list []string, days map[string]string, err error) {
	days = map[string]string{}
	dir, err := os.MkdirTemp("", "agon-versions-")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	switch index {
	case "go":
		out, err := client(ctx, dir, goClient, "go", "list", "-m", "-versions", pkg)
		if err != nil {
			return nil, nil, err
		}
		if l := strings.Fields(string(out)); len(l) > 1 {
			list = l[1:]
		}
		return list, days, nil
	case "npm":
		out, err := client(ctx, dir, nil, "npm", "view", pkg, "time", "--json")
		if err != nil {
			return nil, nil, err
		}
		var times map[string]time.Time
		if err := json.Unmarshal(out, &times); err != nil {
			return nil, nil, fmt.Errorf("read npm's answer: %w", err)
		}
		for _, v := range sortedKeys(times) {
			if versionText().MatchString(v) {
				list = append(list, v)
				days[v] = times[v].UTC().Format("2006-01-02")
			}
		}
		return list, days, nil
	}
	text, err := f.f.versions(ctx, pkg)
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(text) {
		if l, ok := strings.CutPrefix(strings.TrimSpace(line), "Available versions:"); ok {
			for v := range strings.SplitSeq(l, ",") {
				list = append([]string{strings.TrimSpace(v)}, list...) // pip lists the newest first
			}
		}
	}
	return list, days, nil
}

// Day returns the day on which a version was published, "" where the index does
// not say it.
func Day(ctx context.Context, index, pkg, version string) string {
	dir, err := os.MkdirTemp("", "agon-day-")
	if err != nil {
		return ""
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var at time.Time
	switch index {
	case "go":
		out, err := client(ctx, dir, goClient, "go", "list", "-m", "-json", pkg+"@"+version)
		var m struct{ Time time.Time }
		if err != nil || json.Unmarshal(out, &m) != nil {
			return ""
		}
		at = m.Time
	case "npm":
		out, err := client(ctx, dir, nil, "npm", "view", pkg, "time", "--json")
		var times map[string]time.Time
		if err != nil || json.Unmarshal(out, &times) != nil {
			return ""
		}
		at = times[version]
	}
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format("2006-01-02")
}
