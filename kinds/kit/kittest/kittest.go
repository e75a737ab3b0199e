// Package kittest is for tests that play kinds in real boxes.
package kittest

import (
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/agon-arena/agon/kinds/kit"
)

// Options are those of this machine over the data directory dir, but for its
// model: the samples' script answers, whatever is configured here.
func Options(dir string, kits kit.List) kit.Options {
	return kit.Options{
		Kits: kits,
		Data: dir, Listen: "127.0.0.1:0", Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Getenv: func(k string) string {
			if strings.HasPrefix(k, "AGON_LLM_") {
				return ""
			}
			if v := os.Getenv(k); v != "" || k != driverEnv {
				return v
			}
			return cheap()
		},
		Parallel: 2,
	}
}

// driverEnv names the driver of boxes; empty is the strongest.
const driverEnv = "AGON_DRIVER"

// cheap is runc where it is installed: its boxes cost half of gVisor's. What holds boxes
// apart is tested with each driver.
var cheap = sync.OnceValue(func() string {
	if _, err := exec.LookPath("runc"); err != nil {
		return ""
	}
	return "runc"
})

// Strongest is o with the driver that a validator would take.
func Strongest(o kit.Options) kit.Options {
	o.Getenv = kit.Override(o.Getenv, driverEnv, os.Getenv(driverEnv))
	return o
}
