// Package kittest is for tests that play kinds in real boxes.
package kittest

import (
	"log/slog"
	"os"
	"strings"

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
			return os.Getenv(k)
		},
		Parallel: 2,
	}
}
