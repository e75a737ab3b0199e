package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// startLiteLLM starts LiteLLM's proxy, the program at bin, with a worker for each core and
// without keys, books and a database. It is up when it answers a call.
func startLiteLLM(bin, up string) (*part, error) {
	dir, err := os.MkdirTemp("", "agon-bench-")
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.yaml")
	text := "model_list:\n  - model_name: m\n    litellm_params: {model: openai/m, api_base: " + strconv.Quote(up+"/v1") + ", api_key: sk-bench}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(bin, "--config", config, "--host", "127.0.0.1", "--port", port, "--num_workers", strconv.Itoa(runtime.NumCPU()), "--telemetry", "False")
	cmd.Env = append(os.Environ(), "LITELLM_LOG=ERROR", "LITELLM_LOCAL_MODEL_COST_MAP=True")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &part{name: "litellm", cmd: cmd, addr: addr, path: "/v1/chat/completions", group: true}
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if _, err = p.load(1, false, time.Hour, 1); err == nil {
			return p, nil
		}
	}
	said, rerr := os.ReadFile(log.Name())
	p.stop()
	return nil, errors.Join(fmt.Errorf("LiteLLM does not answer: %w: %s", err, tail(string(said))), rerr)
}

// tail is the end of a log.
func tail(s string) string { return strings.ToValidUTF8(s[max(0, len(s)-500):], "") }

// members are the processes of p: its own, or all of its group.
func (p *part) members() []string {
	own := strconv.Itoa(p.cmd.Process.Pid)
	if !p.group {
		return []string{own}
	}
	var out []string
	list, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is good
	for _, at := range list {
		b, err := os.ReadFile(at)
		if err != nil { // it has ended
			continue
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		if f := strings.Fields(rest); len(f) > 2 && f[2] == own {
			out = append(out, filepath.Base(filepath.Dir(at)))
		}
	}
	return out
}
