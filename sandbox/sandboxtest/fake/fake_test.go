package fake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
)

func TestFake(t *testing.T) {
	ctx := context.Background()
	limits := agon.Limits{OutputBytes: 4}
	until := func(ctx context.Context, _ *Box, _ sandbox.Cmd) sandbox.Exit { <-ctx.Done(); return sandbox.Exit{} }
	tests := []struct {
		name string
		wall time.Duration
		exec func(context.Context, *Box, sandbox.Cmd) sandbox.Exit
		want sandbox.Exit
		out  string
	}{
		{"exits", 0, func(context.Context, *Box, sandbox.Cmd) sandbox.Exit { return sandbox.Exit{Code: 3} }, sandbox.Exit{Code: 3}, ""},
		{"wall", time.Millisecond, until, sandbox.Exit{Code: 137, Signal: 9, Limit: "wall"}, ""},
		{"output", 0, func(ctx context.Context, b *Box, c sandbox.Cmd) sandbox.Exit {
			fmt.Fprint(c.Stdout, "123456")
			return until(ctx, b, c)
		}, sandbox.Exit{Code: 137, Signal: 9, Limit: "output"}, "1234"},
		{"killed", 0, func(ctx context.Context, b *Box, c sandbox.Cmd) sandbox.Exit {
			b.Kill("host_oom")
			return until(ctx, b, c)
		}, sandbox.Exit{Code: 137, Signal: 9, Lost: "host_oom"}, ""},
		{"memory", 0, func(ctx context.Context, b *Box, c sandbox.Cmd) sandbox.Exit {
			b.SetEnd(sandbox.End{Ended: true, Limit: "memory"})
			return until(ctx, b, c)
		}, sandbox.Exit{Code: 137, Signal: 9, Limit: "memory"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := New(Config{Exec: tt.exec})
			b, err := d.Start(ctx, sandbox.Spec{Limits: limits})
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			got, err := b.Exec(ctx, sandbox.Cmd{Wall: tt.wall, Stdout: &out})
			if err != nil || got != tt.want || out.String() != tt.out {
				t.Fatalf("got %+v, %v, %q; want %+v, %q", got, err, out.String(), tt.want, tt.out)
			}
			if err := b.Close(); err != nil || b.Close() != nil || d.Open() != 0 || !b.End().Closed {
				t.Fatalf("close: %v, open %d, end %+v", err, d.Open(), b.End())
			}
			if _, err := b.Exec(ctx, sandbox.Cmd{}); !errors.Is(err, sandbox.ErrHost) {
				t.Fatalf("exec in a closed box: %v", err)
			}
		})
	}
}

func TestFakeFiles(t *testing.T) {
	ctx := context.Background()
	d := New(Config{Start: func(_ context.Context, b *Box) error { b.SetFile("/repo/a", []byte("hello")); return nil }})
	b, err := d.Start(ctx, sandbox.Spec{Mounts: []sandbox.Mount{{Kind: sandbox.MountScratch, Target: "/repo"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := b.ReadFile("/repo/a", 5); err != nil || string(got) != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := b.ReadFile("/repo/a", 4); !errors.Is(err, sandbox.ErrUnsafe) {
		t.Fatal(err)
	}
	if _, err := b.ReadFile("/repo/b", 4); !errors.Is(err, sandbox.ErrNotExist) {
		t.Fatal(err)
	}
	l, err := b.Layer(ctx, "/repo")
	if err != nil {
		t.Fatal(err)
	}
	n, err := New(Config{}).Start(ctx, sandbox.Spec{Mounts: []sandbox.Mount{{Kind: sandbox.MountLayer, Target: "/repo", Layer: l}}})
	if !errors.Is(err, sandbox.ErrSpec) {
		t.Fatalf("another driver's layer: %v, %v", n, err)
	}
	d.c.Start = nil
	n, err = d.Start(ctx, sandbox.Spec{Mounts: []sandbox.Mount{{Kind: sandbox.MountLayer, Target: "/repo", Layer: l}}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := n.ReadFile("/repo/a", 5); err != nil || string(got) != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
}
