package play

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/pack/clawbench"
	"github.com/agon-arena/agon/kinds/pack/mock"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/kinds/pack/services"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// Places of a box that an agent works in by shell, and its limits.
const (
	learnedDir = "/learned" // linked from the workspace; all that a session keeps
	// instructionFile of the workspace is what an episode asks for.
	instructionFile = "INSTRUCTION.md"
	appDir          = "/app" // where the result of a verified scenario lies
	testsDir        = "/tests"
	logsDir         = "/logs"
	servicesDoor    = "127.0.0.1:8090"
	mailDoor        = "127.0.0.1:1025"

	commandWall = time.Minute // of one command
	maxCommand  = 64 << 10    // bytes of one command
	maxKeptText = 24_000      // bytes of one command's output that are kept
	maxLearned  = 64 << 10    // bytes of learned/ that evidence shows
	maxOutput   = 4 << 20     // bytes of a result that a verifier gets
)

// FileOutput is what the agent of a verified scenario left.
const FileOutput = "output.bin"

// SessionEpisode is one episode of a session.
type SessionEpisode struct {
	Instruction string            `json:"instruction"`
	Response    string            `json:"response"`
	Turns       int               `json:"turns"`
	Stopped     string            `json:"stopped,omitempty"`
	Calls       []mock.Call       `json:"tool_calls_raw"`
	State       packfile.Value    `json:"state"`   // of the services, at the end
	Learned     map[string]string `json:"learned"` // what is kept for the next one
}

// shellPlay is a play whose agent works in a box by shell: it and the agent's
// program are in boxes of their own, and only commands go from one to the other.
type shellPlay struct {
	tk   *task.Task
	sc   *scenario
	pack *packfile.Pack
	job  job
	user map[string]string
	run  agon.RunSpec

	env   kind.Env
	kind  *Kind
	root  rootfs.Root
	doors []sandbox.Door // to the model
}

func (k *Kind) playShell(ctx context.Context, env kind.Env, watcher kind.Watcher, s shellPlay) (agon.Record, error) {
	w, err := watcher.Watch(ctx, s.tk.Key, kind.Dialect{}, gatewayDoor)
	if err != nil {
		return agon.Record{}, err
	}
	s.env, s.kind, s.doors = env, k, w.Doors
	if s.root, err = k.root(ctx, env, s.tk); err != nil {
		return agon.Record{}, err
	}
	s.job.Tools, s.job.ToolTimeout = []string{"exec"}, int((commandWall+10*time.Second)/time.Second)
	s.job.Texts = map[string]string{"exec": "Run a shell command in your box, at most a minute. Files stay, processes do not."}
	e := Episode{Scenario: s.sc.Name, Pack: s.pack.Hash, Prompt: s.job.Prompt, User: s.user}
	play := s.session
	if s.sc.Verifier != nil {
		play = s.verified
	}
	rec, err := play(ctx, &e)
	if err != nil {
		return agon.Record{}, err
	}
	if err := finish(env, w, s.run, s.tk.Key, s.pack, &rec, e); err != nil {
		return agon.Record{}, err
	}
	return rec, nil
}

// session plays the episodes one after the other. Each has fresh boxes and fresh
// services; the layer of learned/ goes from one to the next.
func (s *shellPlay) session(ctx context.Context, e *Episode) (rec agon.Record, err error) {
	var kept []*sandbox.Layer // each lies on those before it
	defer func() {
		for _, l := range slices.Backward(kept) {
			err = errors.Join(err, l.Remove())
		}
	}()
	log := []byte{}
	for i, part := range s.sc.Session {
		var se SessionEpisode
		var res result
		var layer, next *sandbox.Layer
		if i > 0 {
			layer = kept[i-1]
		}
		rec, res, se, next, err = s.episode(ctx, i, part, layer)
		if next != nil {
			kept = append(kept, next)
		}
		if err != nil {
			return agon.Record{}, fmt.Errorf("episode %d: %w", i+1, err)
		}
		log = append(log, rec.Files[FileLog]...)
		rec.Files[FileLog] = log[:min(len(log), maxLog)]
		e.Session = append(e.Session, se)
		e.Calls = append(e.Calls, se.Calls...)
		e.Turns, e.Response, e.Error = e.Turns+res.Turns, res.Response, plain.Short(res.Error, 500)
		// An episode that ran out of time counts as what it left; the others go on.
		if !agon.Ordinary(rec.Outcome) && rec.Outcome != "limit_wall" {
			return rec, nil
		}
	}
	rec.Outcome, rec.Detail = agon.OutcomeOK, ""
	return rec, nil
}

// world is where the commands of one episode run: a box, and the office that it reaches.
type world struct {
	box    sandbox.Box
	office *services.Server
	talks  sync.WaitGroup // by mail; they end with the box
	dir    string         // of the workspace's files, on the host
	stop   func()         // serving the office
}

// Close ends the box, then what serves it.
func (w *world) Close() error {
	if w.box != nil {
		w.box.Close()
	}
	w.talks.Wait()
	if w.stop != nil {
		w.stop()
	}
	return tempdir.Remove(w.dir)
}

// world starts the services of episode i and a box that reaches them.
func (s *shellPlay) world(ctx context.Context, i int, instruction, fixtures []byte, kept *sandbox.Layer) (_ *world, err error) {
	v, err := packfile.ParseLimit(fixtures)
	if err != nil {
		return nil, err
	}
	w := &world{office: services.New(services.Config{Seed: uint64(s.run.Seed)<<4 | uint64(i)})}
	if err := w.office.Load(v); err != nil {
		return nil, err
	}
	if w.dir, err = lay(append(s.files(), blob.File{Path: instructionFile, Content: instruction})); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	door, stop, err := serveDoor(w.office.Agent(), servicesDoor)
	if err != nil {
		return nil, err
	}
	w.stop = stop
	mail := sandbox.Door{Listen: mailDoor, Dial: func(ctx context.Context) (net.Conn, error) {
		inside, ours := net.Pipe()
		w.talks.Go(func() { w.office.Talk(ctx, ours) })
		return inside, nil
	}}
	learned := sandbox.Mount{Kind: sandbox.MountScratch, Target: learnedDir}
	if kept != nil {
		learned = sandbox.Mount{Kind: sandbox.MountLayer, Layer: kept, Target: learnedDir}
	}
	w.box, err = s.box(ctx, "world", []sandbox.Mount{{Kind: sandbox.MountOverlay, Source: w.dir, Target: workspace}, learned}, door, mail)
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (s *shellPlay) episode(ctx context.Context, i int, part clawbench.SessionEpisode, kept *sandbox.Layer) (rec agon.Record, res result, se SessionEpisode, next *sandbox.Layer, err error) {
	read := func(name string, limit int64) ([]byte, error) {
		return clawbench.ReadFile(s.sc.root.FS(), path.Join(fixturesDir, name), limit)
	}
	instruction, err := read(part.Instruction, clawbench.MaxScenario)
	if err != nil {
		return rec, res, se, next, err
	}
	fixtures, err := read(part.Services, clawbench.MaxFixture)
	if err != nil {
		return rec, res, se, next, err
	}
	w, err := s.world(ctx, i, instruction, fixtures, kept)
	if err != nil {
		return rec, res, se, next, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	se = SessionEpisode{Instruction: string(instruction), Calls: []mock.Call{}}
	rec, res, se.Calls, err = s.work(ctx, w.box, workspace)
	if err != nil {
		return rec, res, se, next, err
	}
	se.Response, se.Turns, se.Stopped, se.State = res.Response, res.Turns, plain.Short(res.Stopped, 200), w.office.State()
	if se.Learned, err = learnedIn(ctx, w.box, s.root.Python); err != nil {
		return rec, res, se, next, err
	}
	if next, err = w.box.Layer(ctx, learnedDir); err != nil {
		return rec, res, se, nil, fmt.Errorf("keep learned/: %w", err)
	}
	return rec, res, se, next, nil
}

// verified plays a scenario whose result a script tests later, in Judge.
func (s *shellPlay) verified(ctx context.Context, e *Episode) (rec agon.Record, err error) {
	dir, err := lay(append(s.files(), blob.File{Path: instructionFile, Content: []byte(s.job.Prompt + "\n")}))
	if err != nil {
		return agon.Record{}, err
	}
	defer func() { err = errors.Join(err, tempdir.Remove(dir)) }()
	box, err := s.box(ctx, "world", []sandbox.Mount{{Kind: sandbox.MountOverlay, Source: dir, Target: workspace}, s.app()})
	if err != nil {
		return agon.Record{}, err
	}
	defer box.Close()
	rec, res, calls, err := s.work(ctx, box, appDir)
	if err != nil {
		return agon.Record{}, err
	}
	e.Calls, e.Turns, e.Response, e.Stopped, e.Error = calls, res.Turns, res.Response, plain.Short(res.Stopped, 200), plain.Short(res.Error, 500)
	out, err := box.ReadFile(s.sc.Verifier.Output, maxOutput)
	switch {
	case errors.Is(err, sandbox.ErrNotExist), errors.Is(err, sandbox.ErrUnsafe):
		// Nothing that a verifier could test: Judge gives 0.
	case err != nil:
		return agon.Record{}, fmt.Errorf("read the agent's result: %w", err)
	default:
		rec.Files[FileOutput] = out
	}
	// What was left in time counts, as it does where an agent says nothing.
	if rec.Outcome == "limit_wall" {
		rec.Outcome, rec.Detail = agon.OutcomeOK, ""
	}
	return rec, nil
}

// app is the folder of the result: the image's, or an empty one.
func (s *shellPlay) app() sandbox.Mount { return appIn(s.root) }

func appIn(root rootfs.Root) sandbox.Mount {
	below := filepath.Join(root.Dir, "app")
	if st, err := os.Lstat(below); err == nil && st.IsDir() {
		return sandbox.Mount{Kind: sandbox.MountOverlay, Source: below, Target: appDir}
	}
	return sandbox.Mount{Kind: sandbox.MountScratch, Target: appDir}
}

func (s *shellPlay) box(ctx context.Context, name string, mounts []sandbox.Mount, doors ...sandbox.Door) (sandbox.Box, error) {
	return s.env.Box(ctx, sandbox.Spec{
		Name: name, Rootfs: s.root.Dir, UID: s.root.UID, GID: s.root.GID, Mounts: append(mounts, sandbox.Mount{Kind: sandbox.MountTmp, Target: "/tmp", SizeBytes: 64 << 20}),
		Doors: doors, Limits: s.run.Policy.Agent, Env: environ(s.root),
	})
}

// files are those of the workspace, as the agent's own program has them, too. What a
// pack puts where the instruction or learned/ lies is left out.
func (s *shellPlay) files() []blob.File {
	var out []blob.File
	for _, name := range slices.Sorted(maps.Keys(s.job.Files)) {
		if top, _, _ := strings.Cut(name, "/"); top != instructionFile && top != path.Base(learnedDir) {
			out = append(out, blob.File{Path: name, Content: []byte(s.job.Files[name])})
		}
	}
	return out
}

// lay writes a workspace's files into a new directory of the host, which boxes show with
// a layer of their own above it. Names are valid paths, none of them another's folder.
func lay(files []blob.File) (dir string, err error) {
	if dir, err = tempdir.Make("workspace"); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the workspace: %w", errors.Join(err, tempdir.Remove(dir)))
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if err := root.Symlink(learnedDir, path.Base(learnedDir)); err != nil {
		return "", err
	}
	for _, f := range files {
		if err := root.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
			return "", err
		}
		if err := root.WriteFile(f.Path, f.Content, 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// work runs the agent beside a box, in which its commands run.
func (s *shellPlay) work(ctx context.Context, box sandbox.Box, dir string) (agon.Record, result, []mock.Call, error) {
	sh := &shell{box: box, dir: dir, now: time.Now, calls: []mock.Call{}}
	door, stop, err := serveDoor(sh, mockDoor)
	if err != nil {
		return agon.Record{}, result{}, nil, err
	}
	defer stop()
	rec, res, err := s.kind.agent(ctx, s.env, s.run, s.root, append([]sandbox.Door{door}, s.doors...), s.job)
	stop() // no command runs any more
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if err == nil {
		err = sh.err
	}
	return rec, res, sh.calls, err
}

// shell answers POST /tools/exec {command} with what the command said.
type shell struct {
	box sandbox.Box
	dir string
	now func() time.Time

	mu    sync.Mutex // guards below; one command at a time
	calls []mock.Call
	err   error // of the box, ours
}

// ServeHTTP implements http.Handler.
func (sh *shell) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/tools/exec" {
		http.Error(w, `{"detail":"there is only POST /tools/exec"}`, http.StatusNotFound)
		return
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxCommand))
	if err != nil {
		http.Error(w, `{"detail":"the command is too long"}`, http.StatusRequestEntityTooLarge)
		return
	}
	args, err := packfile.ParseLimit(b)
	command := args.Get("command")
	if err != nil || command.Kind != packfile.String || strings.Contains(command.Str, "\x00") {
		http.Error(w, `{"detail":"command: want a text"}`, http.StatusUnprocessableEntity)
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	at := sh.now()
	out := &limited{left: maxKeptText}
	x, err := sh.box.Exec(r.Context(), sandbox.Cmd{
		Args: []string{"/bin/sh", "-c", command.Str}, Dir: sh.dir, Stdin: strings.NewReader(""), Stdout: out, Stderr: out, Wall: commandWall, Untrusted: true,
	})
	if err != nil {
		if r.Context().Err() == nil {
			sh.err = errors.Join(sh.err, err)
		}
		http.Error(w, `{"detail":"the box does not answer"}`, http.StatusBadGateway)
		return
	}
	status := "completed"
	if x.Code != 0 || x.Limit != "" {
		status = "failed"
	}
	text := strings.ToValidUTF8(out.buf.String(), "\ufffd")
	if x.Limit != "" {
		text += "\n[ended: " + x.Limit + " limit]"
	}
	answer := packfile.Obj("status", status, "exitCode", x.Code, "durationMs", x.Wall.Milliseconds(), "aggregated", text)
	sh.calls = append(sh.calls, mock.Call{TS: at.UTC().Format(time.RFC3339Nano), Tool: "exec", Args: args, Response: answer, Summary: plain.Short(text, 200)})
	body, err := answer.MarshalJSON()
	if err != nil {
		http.Error(w, `{"detail":"the output cannot be written"}`, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// writer is what puts files into a box, as the box's own user.
const writer = `import base64, json, os, sys
job = json.load(sys.stdin)
os.makedirs(job["dir"], exist_ok=True)
for f in job["files"]:
    at = os.path.join(job["dir"], f["path"])
    os.makedirs(os.path.dirname(at), exist_ok=True)
    with open(at, "wb") as out:
        out.write(base64.b64decode(f["content"] or ""))
    os.chmod(at, f["mode"])
`

// write puts files below dir of a box in which no agent has run yet.
func write(ctx context.Context, box sandbox.Box, python, dir string, files []blob.File) error {
	type file struct {
		Path    string `json:"path"`
		Content []byte `json:"content"`
		Mode    uint32 `json:"mode"`
	}
	j := struct {
		Dir   string `json:"dir"`
		Files []file `json:"files"`
	}{Dir: dir}
	for _, f := range files {
		mode := uint32(0o644)
		if f.Mode == blob.ModeExec {
			mode = 0o755
		}
		j.Files = append(j.Files, file{f.Path, f.Content, mode})
	}
	in, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("write files: %w", err)
	}
	log := &limited{left: 2000}
	x, err := box.Exec(ctx, sandbox.Cmd{Args: []string{python, "-I", "-c", writer}, Stdin: bytes.NewReader(in), Stdout: log, Stderr: log})
	if err != nil {
		return fmt.Errorf("write files: %w", err)
	}
	if x.Code != 0 {
		return fmt.Errorf("write files: status %d: %s", x.Code, plain.Short(log.buf.String(), 300))
	}
	return nil
}

// lister says what is in learned/: regular files only, as far as it fits.
const lister = `import json, os, sys
out, left = {}, int(sys.argv[2])
for dir, dirs, files in os.walk(sys.argv[1]):
    dirs.sort()
    for name in sorted(files)[:200]:
        at = os.path.join(dir, name)
        try:
            if os.path.islink(at) or not os.path.isfile(at):
                continue
            with open(at, "rb") as f:
                text = f.read(left).decode("utf-8", "replace")
        except OSError:
            continue
        left -= len(text)
        out[os.path.relpath(at, sys.argv[1]).encode("utf-8", "replace").decode()] = text
    if left <= 0 or len(out) > 200:
        break
json.dump(out, sys.stdout)
`

// learnedIn is evidence only: what is handed on is the layer itself.
func learnedIn(ctx context.Context, box sandbox.Box, python string) (map[string]string, error) {
	out := &limited{left: 8 * maxLearned}
	_, err := box.Exec(ctx, sandbox.Cmd{Args: []string{python, "-I", "-c", lister, learnedDir, fmt.Sprint(maxLearned)}, Stdin: strings.NewReader(""), Stdout: out, Stderr: io.Discard, Wall: 20 * time.Second})
	if err != nil {
		return nil, fmt.Errorf("read learned/: %w", err)
	}
	files := map[string]string{}
	if json.Unmarshal(out.buf.Bytes(), &files) != nil {
		return map[string]string{}, nil // the agent's files are its own
	}
	return files, nil
}
