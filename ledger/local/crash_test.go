package local

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
)

// envWriter makes this test binary a writer that is going to be killed.
const envWriter = "AGON_TEST_LEDGER_WRITER"

func TestMain(m *testing.M) {
	if path := os.Getenv(envWriter); path != "" {
		fmt.Fprintln(os.Stderr, writeForever(path, os.Getenv(envWriter+"_HOTKEY")))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeForever commits numbers, many at once, and tells each that is acknowledged.
func writeForever(path, hotkey string) error {
	ctx := context.Background()
	l, err := Open(ctx, path, Config{})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	errs := make(chan error)
	for w := range 16 {
		go func() {
			for i := 0; ; i++ {
				text := fmt.Sprintf("%d-%d-%d", os.Getpid(), w, i)
				if _, err := l.Commit(ctx, 1, hotkey, ledger.Raw([]byte(text))); err != nil {
					errs <- err
					return
				}
				mu.Lock()
				fmt.Println(text)
				mu.Unlock()
			}
		}()
	}
	return <-errs
}

// What was acknowledged survives kill -9, and the state is what the log says.
func TestKilled(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path, owner := filepath.Join(t.TempDir(), "l.db"), ledgertest.Key(t, "owner")
	l, err := Open(t.Context(), path, Config{Stepped: true})
	if err != nil {
		t.Fatal(err)
	}
	h := l.hyper
	h.CommitmentSpace = 1 << 40
	if err := l.EnsureSubnet(t.Context(), 1, Subnet{OwnerHotkey: owner, OwnerColdkey: owner, Hyper: &h}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for round := range 4 {
		cmd := exec.CommandContext(t.Context(), exe)
		cmd.Env = append(os.Environ(), envWriter+"="+path, envWriter+"_HOTKEY="+owner)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 300 + 37*round {
			if !lines.Scan() {
				break
			}
			told[lines.Text()] = true
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // what was in the pipe was acknowledged too; its last line may be cut
			told[lines.Text()] = true
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the writer ended well")
		}
		l, err := Open(t.Context(), path, Config{})
		if err != nil {
			t.Fatal(err)
		}
		all, err := l.History(t.Context(), 1, owner, 0)
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]bool{}
		for _, c := range all {
			have[string(c.Fields[0].Data)] = true
		}
		lost := 0
		for text := range told {
			if !have[text] {
				lost++
				delete(told, text)
			}
		}
		if lost > 1 { // one line may be cut
			t.Errorf("round %d: %d of %d acknowledged commitments are lost", round, lost, len(told))
		}
		same(t, l, 0)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(told) < 1000 {
		t.Errorf("only %d acknowledged: the test tests little", len(told))
	}
}
