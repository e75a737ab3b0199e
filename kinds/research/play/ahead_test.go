package play

import (
	"errors"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/research/surface"
	"github.com/agon-arena/agon/sandbox"
)

// Boxes made ahead: one program each, none of them is lost, and a short program has none made beside it.
func TestAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.task(edit(oneTask, "baseline", "isolate = true\nbaseline"), with(oneBase))
	p, done, err := w.kind.player(t.Context(), w, w.run())
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	var boxes []sandbox.Box
	starting := make(chan bool, 8)
	start := func() (sandbox.Box, error) {
		starting <- true
		b, err := w.Box(t.Context(), p.spec("program", &side{name: "x", changes: &surface.Result{OK: true}}, time.Minute))
		boxes = append(boxes, b)
		return b, err
	}
	take := func(a *ahead, start func() (sandbox.Box, error)) sandbox.Box {
		t.Helper()
		b, err := a.take(start)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	a := &ahead{}
	first := take(a, start)
	<-starting
	if a.next(time.Hour, start)(); a.made != nil {
		t.Error("a program that has ended at once has the next box made beside it")
	}
	ended := a.next(0, start)
	<-starting // it runs long enough
	ended()
	a.end(first)
	second := take(a, start)
	if len(boxes) != 2 || second != boxes[1] || first.End().Closed == false {
		t.Errorf("%d boxes, the first: %+v", len(boxes), first.End())
	}
	// One that has died while it waited is not played in.
	ended = a.next(0, start)
	<-starting
	ended()
	m := <-a.made
	_ = m.box.Close()
	a.made <- m
	third := take(a, start)
	if len(boxes) != 4 || third != boxes[3] {
		t.Errorf("%d boxes: a dead one is played in", len(boxes))
	}
	<-starting
	// What fails is ours, and said to the program that needs it.
	broken := errors.New("no box")
	ended = a.next(0, func() (sandbox.Box, error) { starting <- true; return nil, broken })
	<-starting
	ended()
	if _, err := a.take(start); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
	// A spare one goes with the rest.
	ended = a.next(0, start)
	<-starting
	ended()
	a.end(second)
	a.end(third)
	a.drop()
	for i, b := range boxes {
		if !b.End().Closed {
			t.Errorf("box %d of %d is not closed", i, len(boxes))
		}
	}
	if a.drop(); a.made != nil {
		t.Error("a box is left")
	}
}

// Nothing is made beside a program that may use the whole machine, or a card.
func TestSpare(t *testing.T) {
	p := &player{}
	p.run.Policy.Agent.CPUMilli = 1 << 30
	if p.spare() {
		t.Error("a program may use more processors than there are, and one is said to be spare")
	}
	p.run.Policy.Agent.CPUMilli = 1
	card := &agon.GPUNeed{Count: 1}
	p.run.Tasks = []agon.TaskRef{{Key: "test/one", GPU: card}}
	if p.spare() {
		t.Error("a task has a card to itself, and boxes are made beside it")
	}
}

// besides is a program that takes all that a box lets it while the next program's box is made.
const besides = `import os, socket, time
end = time.time() + 0.4
kept = []
def until(f):
    try:
        while time.time() < end and len(kept) < 5000:
            f()
    except (OSError, MemoryError):
        pass
until(lambda: kept.append(socket.socketpair()))
kept = kept[:10]
fill = open("/workspace/fill", "wb")
until(lambda: fill.write(b"x" * (1 << 20)))
def child():
    if os.fork() == 0:
        while time.time() < end: pass
        os._exit(0)
until(child)
until(lambda: kept.append(bytearray(4 << 20)))
`

// Whoever makes the start of a box beside it fail could buy another try: what a box may take does not.
func TestAheadBesideAHostileProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.task(edit(oneTask, "baseline", "isolate = true\nbaseline"), with(oneBase))
	p, done, err := w.kind.player(t.Context(), w, w.run())
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	r, err := p.programs(t.Context(), &side{name: "x", changes: &surface.Result{OK: true}}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for i, program := range []string{"", "", besides, "import os; print(os.path.exists('/workspace/fill'))"} {
		_, out, errs, err := r.run(programRequest{Args: []string{"python3", "-I", "-c", program}}, nil)
		if err != nil || i == 3 && string(out) != "False\n" {
			t.Fatalf("program %d: %q %q %v", i, out, errs, err)
		}
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}
