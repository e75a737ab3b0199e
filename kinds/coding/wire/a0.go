package wire

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/kinds/coding/play"
	"github.com/agon-arena/agon/kinds/coding/signin"
)

// Version A0 of the protocol: uploads that cost nothing, and validators on a web socket.

// What Config.A0 may say.
const (
	A0Signed   = "signed"   // validators of version A0' sign their hello
	A0Unsigned = "unsigned" // and those of A0, who do not, are believed
)

const (
	maxSeedAgent = 1 << 20
	seedCooldown = time.Minute
	maxSockets   = 500
	maxQuiet     = 64 // frames of a socket that has not said who it is
	socketOut    = 64 // frames that wait for a slow reader; then it is let go
	pingEvery    = 20 * time.Second
)

// socket is one connection: of a validator, or of somebody who watches.
type socket struct {
	out  chan []byte
	stop context.CancelFunc
	s    *session // nil: a watcher; guarded by Backend.mu
}

// send queues a frame. Under Backend.mu.
func (k *socket) send(b []byte) {
	select {
	case k.out <- b:
	default:
		k.stop() // whoever does not read is let go
	}
}

// tell queues a frame for one socket.
func (b *Backend) tell(k *socket, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		b.cfg.Log.Error("write a frame", "err", err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	k.send(text)
}

// watched tells those who watch.
func (b *Backend) watched(event string, data any) {
	text, err := json.Marshal(map[string]any{"event": event, "data": data})
	if err != nil {
		b.cfg.Log.Error("write a frame", "err", err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for k := range b.sockets {
		if k.s == nil {
			k.send(text)
		}
	}
}

// announce tells validators that there may be work.
func (b *Backend) announce(context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k := range b.sockets {
		if k.s != nil {
			k.send([]byte(`{"event":"evaluation-available"}`))
		}
	}
}

// ws is GET /ws.
func (b *Backend) ws(w http.ResponseWriter, r *http.Request) {
	if b.cfg.A0 == "" {
		refuse(w, http.StatusNotFound, "Not Found")
		return
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	k := &socket{out: make(chan []byte, socketOut), stop: stop}
	b.mu.Lock()
	full := len(b.sockets) >= maxSockets
	if !full {
		b.sockets[k] = true
	}
	b.mu.Unlock()
	if full {
		refuse(w, http.StatusTooManyRequests, "Too many connections, at most %d", maxSockets)
		return
	}
	defer b.unplug(ctx, k)
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // nothing here hangs on a browser's cookies
	if err != nil {
		return // it has been answered
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(maxBody)
	go k.write(ctx, conn, func() { b.heard(k) })
	for quiet := 0; ; {
		_, text, err := conn.Read(ctx)
		if err != nil {
			return
		}
		var f frame
		if err := json.Unmarshal(text, &f); err != nil {
			_ = conn.Close(websocket.StatusUnsupportedData, "not a JSON object")
			return
		}
		b.mu.Lock()
		s := k.s
		b.mu.Unlock()
		if s == nil {
			if quiet++; quiet > maxQuiet {
				_ = conn.Close(websocket.StatusPolicyViolation, "too many frames before a hello")
				return
			}
			if !b.hello(r, k, &f) {
				return
			}
			continue
		}
		if !b.frame(r, k, s, &f) {
			return
		}
	}
}

// write sends what is queued, and a ping now and then.
func (k *socket) write(ctx context.Context, conn *websocket.Conn, heard func()) {
	defer k.stop()
	t := time.NewTicker(pingEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case text := <-k.out:
			wctx, done := context.WithTimeout(ctx, 10*time.Second)
			err := conn.Write(wctx, websocket.MessageText, text)
			done()
			if err != nil {
				return
			}
		case <-t.C:
			pctx, done := context.WithTimeout(ctx, pingEvery)
			err := conn.Ping(pctx)
			done()
			if err != nil {
				return
			}
			heard()
		}
	}
}

// heard notes a sign of life of a validator, and keeps its leases.
func (b *Backend) heard(k *socket) {
	b.mu.Lock()
	s := k.s
	b.mu.Unlock()
	if s != nil {
		b.alive(s, nil)
		b.prolong(context.Background(), s)
	}
}

// unplug ends a connection, and the session with it.
func (b *Backend) unplug(ctx context.Context, k *socket) {
	b.mu.Lock()
	delete(b.sockets, k)
	s := k.s
	b.mu.Unlock()
	if s != nil {
		b.drop(context.WithoutCancel(ctx), s, "its web socket closed", true)
		b.watched("validator-disconnected", map[string]any{"validator_hotkey": s.Hotkey})
	}
}

// frame is what a validator says.
type frame struct {
	Event      string          `json:"event"`
	Hotkey     string          `json:"validator_hotkey"`
	PublicKey  string          `json:"public_key"`
	Signature  string          `json:"signature"`
	Message    string          `json:"message"`
	Commit     string          `json:"version_commit_hash"`
	Timestamp  json.RawMessage `json:"timestamp"` // a number or a text
	Evaluation string          `json:"evaluation_id"`
	Errored    bool            `json:"errored"`
	Run        *seedRun        `json:"evaluation_run"`
}

// seedRun is a run as version A0 has it.
type seedRun struct {
	ID         string  `json:"run_id"`
	Evaluation string  `json:"evaluation_id"`
	Instance   string  `json:"swebench_instance_id"`
	Response   *string `json:"response"`
	Error      *string `json:"error"`
	Solved     *bool   `json:"solved"`
	Status     string  `json:"status"`
}

// seedStatuses are A0's words for the statuses of C.
var seedStatuses = map[string]string{"started": initAgent, "sandbox_created": runAgent, "patch_generated": initEval, "eval_started": runEval, "result_scored": finished, "cancelled": errored}

// hello makes a validator of a connection. false: it is closed.
func (b *Backend) hello(r *http.Request, k *socket, f *frame) bool {
	refused := func() bool {
		b.tell(k, map[string]any{"event": "authentication-failed", "error": "The hotkey is not a validator here, or its hello is not signed"})
		time.AfterFunc(time.Second, k.stop) // it is written first
		return true
	}
	signed := false
	switch f.Event {
	case "validator-info":
		at := strings.Trim(string(f.Timestamp), `"`)
		if (signin.Ridges{}).CheckHello(r.Context(), b.cfg.Verifier, f.Hotkey, f.PublicKey, f.Commit, at, f.Message, f.Signature) != nil {
			return refused()
		}
		signed = true
	case "validator-version":
		if b.cfg.A0 != A0Unsigned {
			return refused()
		}
	default:
		return true // somebody who watches, and says something
	}
	m, ok, err := b.cfg.Verifier.Members.Member(r.Context(), f.Hotkey)
	if err != nil {
		return false // the client connects again
	}
	if !ok || !m.Validator {
		return refused()
	}
	if old := b.sessionOf(f.Hotkey); old != nil {
		if !signed {
			return refused() // whoever does not prove who he is takes nothing over
		}
		b.drop(r.Context(), old, "it connected again", false)
	}
	s := &session{ID: uuid.NewString(), Hotkey: f.Hotkey, IP: auth.RemoteHost(r), Connected: b.cfg.Now().UTC()}
	s.seen = s.Connected
	if err := b.dir.Put("session-"+s.ID, s); err != nil {
		b.cfg.Log.Error("keep a session", "err", err)
		return false
	}
	b.mu.Lock()
	full := len(b.sessions) >= maxSessions
	if !full {
		b.sessions[s.ID], k.s = s, s
	}
	b.mu.Unlock()
	if full {
		return false
	}
	b.watched("validator-connected", map[string]any{"validator_hotkey": s.Hotkey, "version_commit_hash": clip(f.Commit, 80)})
	b.tell(k, map[string]any{"event": "evaluation-available"})
	return true
}

// frame acts on what a validator says. false: its session is over.
func (b *Backend) frame(r *http.Request, k *socket, s *session, f *frame) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	b.mu.Lock()
	gone := s.gone
	b.mu.Unlock()
	if gone {
		return false
	}
	b.alive(s, nil)
	var err error
	switch f.Event {
	case "get-next-evaluation":
		err = b.next(r, k, s)
	case "start-evaluation":
		if e, ok := b.evaluation(s.Evaluation); ok && e.ID == f.Evaluation {
			b.watched("evaluation-started", e.public())
		}
	case "upsert-evaluation-run", "update-evaluation-run":
		if f.Run != nil {
			err = b.upsert(r.Context(), s, f.Run)
		}
	case "finish-evaluation":
		err = b.finishSeed(r.Context(), s, f)
	}
	if err != nil {
		b.cfg.Log.Error("a frame is not acted on", "event", clip(f.Event, 40), "validator", s.Hotkey, "err", err)
		return false // it connects again
	}
	return true
}

// next answers with an evaluation: the one that it has, or the next; none is an empty frame.
func (b *Backend) next(r *http.Request, k *socket, s *session) error {
	b.mu.Lock()
	stop := b.flags.Paused || slices.Contains(b.flags.Black, s.Hotkey)
	b.mu.Unlock()
	if s.Evaluation == "" && !stop {
		if _, err := b.assign(r, s); err != nil {
			b.cfg.Log.Error("assign an evaluation", "validator", s.Hotkey, "err", err)
		}
	}
	e, ok := b.evaluation(s.Evaluation)
	if !ok {
		b.tell(k, map[string]any{"event": "evaluation"})
		return nil
	}
	runs, err := b.runsOf(e)
	if err != nil {
		return err
	}
	p, err := b.public(r.Context(), b.submissionOf(e.Agent))
	if err != nil {
		return err
	}
	list := []any{}
	for _, d := range runs {
		list = append(list, map[string]any{
			"run_id": d.ID, "evaluation_id": e.ID, "validator_hotkey": s.Hotkey, "swebench_instance_id": instance(d), "status": "started", "task_digest": d.Digest,
		})
	}
	b.tell(k, map[string]any{
		"event": "evaluation", "evaluation_id": e.ID, "evaluation_runs": list, "agent_version": map[string]any{
			"version_id": e.Agent, "agent_id": e.Agent, "version_num": p["version_num"], "created_at": p["created_at"], "score": p["final_score"], "miner_hotkey": p["miner_hotkey"],
		},
	})
	return nil
}

// instance is what a task is called in version A0.
func instance(d *runDoc) string { return path.Base(d.Task.Key) }

// upsert moves a run as a validator says. What it has said before changes nothing.
func (b *Backend) upsert(ctx context.Context, s *session, in *seedRun) error {
	e, ok := b.evaluation(s.Evaluation)
	status, known := seedStatuses[in.Status]
	if !ok || !known || in.Evaluation != "" && in.Evaluation != e.ID {
		return nil
	}
	runs, err := b.runsOf(e)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(runs, func(d *runDoc) bool { return d.ID == in.ID || instance(d) == in.Instance || d.Name == in.Instance })
	if i < 0 {
		return nil // of a set of its own
	}
	d := runs[i]
	at := slices.Index(statuses, status)
	if d.over() || status != errored && at <= slices.Index(statuses, d.Status) {
		return nil
	}
	now := b.cfg.Now().UTC()
	if in.Response != nil && d.Patch == nil && len(*in.Response) <= maxBody/4 {
		d.Patch = in.Response
	}
	if in.Error != nil && *in.Error != "" {
		text := clip(*in.Error, 2000)
		d.Message = &text
	}
	for _, st := range statuses[1:min(at+1, 5)] {
		if d.At[st].IsZero() {
			d.At[st] = now
		}
	}
	d.Status = status
	switch status {
	case finished:
		reward := 0.0
		if in.Solved != nil && *in.Solved {
			reward = 1
		}
		d.Reward, d.At["ended"] = &reward, now
	case errored:
		code, why := 2000, "The validator cancelled this run"
		if d.Code = &code; d.Message == nil {
			d.Message = &why
		}
		d.At["ended"] = now
	}
	if d.over() {
		if err := b.settle(ctx, s, d); err != nil {
			return err
		}
	} else {
		// What the platform shows of the run moves with it; the lease holds without.
		_, _ = b.cfg.Platform.Heartbeat(ctx, s.caller(), d.Lease, client.Heartbeat{Token: d.Token, State: agon.RunPlaying})
		_, _ = b.cfg.Platform.Extend(ctx, s.caller(), d.Lease, d.Token, hold)
	}
	if err := b.dir.Put("run-"+d.ID, d); err != nil {
		return err
	}
	name := instance(d)
	if d.Task.Hidden {
		name = ""
	}
	b.watched("evaluation-run-updated", map[string]any{"run_id": d.ID, "evaluation_id": e.ID, "validator_hotkey": s.Hotkey, "swebench_instance_id": name, "status": in.Status, "solved": d.Reward != nil && *d.Reward >= 1})
	return nil
}

// finishSeed closes the evaluation of a session. Runs without a result go to others.
func (b *Backend) finishSeed(ctx context.Context, s *session, f *frame) error {
	e, ok := b.evaluation(s.Evaluation)
	if !ok || f.Evaluation != "" && f.Evaluation != e.ID {
		return nil
	}
	runs, err := b.runsOf(e)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(runs, func(d *runDoc) bool { return !d.over() }) {
		b.abandon(ctx, s, "it finished without a result of every run", true)
		if s.Evaluation != "" {
			return errors.New("an evaluation could not be given back")
		}
	} else if err := b.end(ctx, s, e, nil, ""); err != nil {
		return err
	}
	b.watched("evaluation-finished", map[string]any{"evaluation_id": e.ID, "validator_hotkey": s.Hotkey, "errored": f.Errored})
	return nil
}

// seedUpload enters an agent of version A0: it is signed, and costs nothing but the
// arena's cap of a coldkey.
func (b *Backend) seedUpload(w http.ResponseWriter, r *http.Request, f *form) {
	id, err := b.seedAdmit(r.Context(), f)
	if err != nil {
		b.fail(w, "upload", err)
		return
	}
	reply(w, http.StatusOK, map[string]string{"status": "success", "message": "Successfully uploaded agent " + id})
}

func (b *Backend) seedAdmit(ctx context.Context, f *form) (string, error) {
	hotkey, _, _ := strings.Cut(f.fields["file_info"], ":")
	if hotkey == "" {
		return "", no(http.StatusBadRequest, "Miner hotkey is required")
	}
	b.entering.Lock()
	defer b.entering.Unlock()
	list, err := b.of(ctx, hotkey)
	if err != nil {
		return "", err
	}
	if len(list) > 0 {
		if left := list[0].CreatedAt.Add(seedCooldown).Sub(b.cfg.Now()); left > 0 {
			return "", no(http.StatusTooManyRequests, "You must wait %d seconds before uploading a new agent version", int64(left.Seconds())+1)
		}
	}
	info, err := signin.ParseFileInfo(f.fields["file_info"])
	switch {
	case err != nil:
		return "", no(http.StatusBadRequest, "Invalid file_info")
	case info.Version != len(list)-1: // of the latest; -1 where there is none
		return "", no(http.StatusConflict, "The version is %d, the latest is %d: upload again", info.Version, len(list)-1)
	case f.name != agentFile:
		return "", no(http.StatusBadRequest, "File must be a python file named agent.py")
	case f.large || len(f.file) > maxSeedAgent:
		return "", no(http.StatusBadRequest, "File size must not exceed 1MB (%d bytes)", maxSeedAgent)
	}
	if _, refusal := (signin.Ridges{}).CheckUpload(ctx, b.cfg.Verifier, f.fields["public_key"], f.fields["file_info"], f.fields["signature"], f.file, false); refusal != nil {
		return "", refusal
	}
	coldkey, err := b.member(ctx, hotkey)
	if err == nil {
		err = b.notBanned(coldkey)
	}
	if err != nil {
		return "", err
	}
	for _, x := range play.CheckSource(f.file) {
		if !x.Warning {
			return "", no(http.StatusBadRequest, "%s", x.Message)
		}
	}
	if err := seedImports(string(f.file)); err != nil {
		return "", no(http.StatusBadRequest, "%v", err)
	}
	a, err := b.arena(ctx)
	if err != nil {
		return "", err
	}
	name := clip(f.fields["name"], 80)
	if len(list) > 0 {
		name = list[len(list)-1].Name
	}
	s, err := b.cfg.Platform.Submit(ctx, platform.Caller{Hotkey: hotkey}, b.cfg.Arena, client.SubmitRequest{Name: name, Licence: a.Licence, Files: []client.File{{Path: agentFile, Content: f.file}}})
	if err != nil {
		return "", err
	}
	// A retry enters nothing anew, and keeps the id that it was given.
	id := b.agentID(s.ID)
	if id == s.ID {
		id = uuid.NewString()
		if err := b.dir.Put("agent-"+id, agentDoc{ID: id, Submission: s.ID, Hotkey: hotkey, Paid: "a0", At: s.CreatedAt}); err != nil {
			return "", err
		}
		b.mu.Lock()
		b.agents[s.ID], b.entered[id] = id, s.ID
		b.mu.Unlock()
	}
	b.books.stale()
	b.announce(ctx)
	return id, nil
}

// seedAgent is GET /retrieval/agent and /retrieval/latest-agent: what version A0
// and A1 ask before an upload.
func (b *Backend) seedAgent(w http.ResponseWriter, r *http.Request) {
	hotkey, ok := query(w, r, "miner_hotkey")
	if !ok {
		return
	}
	list, err := b.of(r.Context(), hotkey)
	switch {
	case b.cfg.A0 == "":
		refuse(w, http.StatusNotFound, "Not Found")
	case err != nil:
		b.fail(w, "agent", err)
	case len(list) == 0:
		refuse(w, http.StatusNotFound, "Agent not found")
	case strings.HasSuffix(r.URL.Path, "latest-agent"):
		reply(w, http.StatusOK, map[string]any{"agent_name": list[0].Name, "version_num": len(list) - 1})
	default:
		reply(w, http.StatusOK, map[string]any{"latest_agent": map[string]any{
			"agent_id": b.agentID(list[0].ID), "miner_hotkey": hotkey, "name": list[0].Name, "latest_version": map[string]any{"version_id": b.agentID(list[0].ID), "version_num": len(list) - 1, "created_at": stamp(list[0].CreatedAt)},
		}})
	}
}

// seedFile is GET /retrieval/agent-version-file: for the validator that is to play
// it, by its address, and for everybody once it is public.
func (b *Backend) seedFile(w http.ResponseWriter, r *http.Request) {
	id, ok := queryID(w, r, "version_id")
	if !ok {
		return
	}
	who := public
	b.mu.Lock()
	for k := range b.sockets {
		if k.s != nil && k.s.IP == auth.RemoteHost(r) && k.s.Evaluation != "" {
			if e, ok := b.evaluation(k.s.Evaluation); ok && e.Agent == id {
				who = operator
			}
		}
	}
	b.mu.Unlock()
	files, err := b.cfg.Platform.SubmissionFiles(r.Context(), who, b.submissionOf(id))
	if err != nil {
		b.fail(w, "agent file", err)
		return
	}
	i := slices.IndexFunc(files, func(f client.File) bool { return f.Path == agentFile })
	if i < 0 || b.cfg.A0 == "" {
		refuse(w, http.StatusNotFound, "Not Found")
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(files[i].Content) // a client that is gone reads no error
}
