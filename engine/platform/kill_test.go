package platform

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/client"
)

// killDir tells the test binary that it is the child of TestKillNine, and where its data lie.
const killDir = "AGON_TEST_KILL_DIR"

// TestKillNine runs a busy platform in a child process, kills it at random
// moments and looks at what is left: nothing acknowledged may be missing, and
// the invariants hold.
func TestKillNine(t *testing.T) {
	if dir := os.Getenv(killDir); dir != "" {
		beBusy(t, dir)
		return
	}
	f := newFixture(t, 3)
	dir := f.dir
	blobs := f.cfg.Blobs
	must(t, f.cfg.Store.Close())
	acks := map[string]string{}
	kills := 6
	if n, err := strconv.Atoi(os.Getenv("AGON_FAULT_ROUNDS")); err == nil {
		kills = n // make faults
	}
	const enough = 20 // acknowledgements; a busy machine needs more rounds for them
	done := 0
	for ; done < kills || len(acks) < enough; done++ {
		if done > 10*kills {
			t.Fatalf("only %d acknowledgements in %d rounds: the child did nothing", len(acks), done)
		}
		for _, line := range runAndKill(t, dir, time.Duration(20+rand.IntN(300))*time.Millisecond) {
			kind, rest, _ := strings.Cut(line, " ")
			acks[rest] = kind
		}
		f.open(blobs)
		checkInvariants(t, f.cfg.Store)
		f.checkAcks(acks)
		must(t, f.cfg.Store.Close())
		if t.Failed() {
			t.Fatalf("after kill %d", done+1)
		}
	}
	// What was under way ends, exactly once.
	f.clock = &clock{t: time.Now()}
	f.open(blobs)
	(&player{fixture: f}).drain()
	t.Logf("%d acknowledgements survived %d kills", len(acks), done)
}

// runAndKill starts the child, kills it after its first acknowledgement and
// some time, and returns the lines that it had written in full.
func runAndKill(t *testing.T, dir string, after time.Duration) (lines []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKillNine$")
	cmd.Env = append(os.Environ(), killDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	started := make(chan struct{})
	var once sync.Once
	go func() {
		select {
		case <-started:
			<-time.After(after)
		case <-time.After(30 * time.Second):
		}
		_ = cmd.Process.Kill()
	}()
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF { //nolint:errorlint // the reader returns it bare
			break // a last line without an end was not acknowledged
		}
		must(t, err)
		once.Do(func() { close(started) })
		if rest, ok := strings.CutPrefix(line, "ACK "); ok {
			lines = append(lines, strings.TrimSpace(rest))
		} else {
			t.Logf("child: %s", line)
		}
	}
	_ = cmd.Wait() // killed
	return lines
}

func (f *fixture) checkAcks(acks map[string]string) {
	f.t.Helper()
	for rest, kind := range acks {
		id, content, _ := strings.Cut(rest, " ")
		switch kind {
		case "submission":
			files, err := f.SubmissionFiles(bg, Caller{Operator: true}, id)
			if err != nil || len(files) != 1 || string(files[0].Content) != content {
				f.t.Errorf("submission %s was acknowledged: %v, %v", id, files, err)
			}
		case "result":
			r, err := f.Run(bg, Caller{Operator: true}, id)
			if err != nil || r.State != agon.RunScored {
				f.t.Errorf("the result of run %s was acknowledged: %+v, %v", id, r, err)
			}
		case "nonce":
			fresh, err := f.Replay(bg, "s", "k", id, f.clock.Now().Add(time.Hour))
			if err != nil || fresh {
				f.t.Errorf("nonce %s was acknowledged: %v, %v", id, fresh, err)
			}
		}
	}
}

// beBusy is the child: it works until it is killed, and says what it was told
// is done.
func beBusy(t *testing.T, dir string) {
	blobs, err := blobfs.Open(dir+"/blobs", blobfs.Options{})
	must(t, err)
	f := &fixture{t: t, clock: &clock{}, ledger: newLedger(), kind: &fakeKind{}, dir: dir}
	f.open(blobs, func(c *Config, _ *agon.Arena) {
		c.Now = time.Now
		c.Lease, c.SweepEvery = 50*time.Millisecond, 5*time.Millisecond
	})
	must(t, f.Start(bg))
	var mu sync.Mutex
	ack := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("ACK "+format+"\n", args...)
	}
	ctx, cancel := context.WithTimeout(bg, 20*time.Second) // should the parent be gone
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			content := fmt.Sprintf("agent-%d-%d", os.Getpid(), i)
			s, err := f.Submit(ctx, Caller{Hotkey: miner1}, "demo", request(content))
			if err == nil {
				ack("submission %s %s", s.ID, content)
			}
			nonce := fmt.Sprintf("%d-%d", os.Getpid(), i)
			if _, err := f.Replay(ctx, "s", "k", nonce, time.Now().Add(time.Hour)); err == nil {
				ack("nonce %s", nonce)
			}
		}
	})
	for i, v := range []string{val1, val2, val3, val1} {
		wg.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				l, err := f.Claim(ctx, Caller{Hotkey: v}, client.ClaimRequest{Kinds: []string{"fake"}, WaitMS: 100})
				if err != nil || l == nil || n%5 == 0 {
					continue // every fifth lease is lost
				}
				r := scored(l, 0.5)
				if n%7 == 0 {
					r.Fault = agon.FaultTask
				}
				reply, err := f.Platform.Result(ctx, Caller{Hotkey: v}, l.ID, r)
				if err == nil && reply.Counted {
					ack("result %s", l.Run.Run)
				}
			}
		})
	}
	wg.Wait()
}
