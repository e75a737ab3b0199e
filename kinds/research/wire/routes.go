package wire

import (
	"html/template"
	"net/http"
	"strings"

	"github.com/agon-arena/agon/kinds/research/coordinator"
)

// Security schemes of routes, as the OpenAPI document names them.
const (
	public    = ""
	byHotkey  = "hotkey"
	byMiner   = "miner"
	byStaff   = "validator"
	byAdmin   = "admin"
	maybeSign = "optional hotkey"
)

type route struct {
	method, path string
	auth         string
	about        string
	handle       http.HandlerFunc
}

// routes is the whole surface; the OpenAPI document is made of it.
func (h *handler) routes() []route {
	const v1 = "/api/v1"
	list := public
	if h.SignedReads {
		list = byHotkey
	}
	out := []route{
		{"GET", "/healthz", public, "is the process up", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, map[string]string{"status": "ok"}) }},
		{"GET", "/readyz", public, "is the database up", h.ready},
		{"GET", "/disclaimer", public, "what a miner must be told", h.disclaimer},
		{"GET", "/disclaimer.md", public, "the same as Markdown", h.disclaimerText},
		{"GET", v1 + "/disclaimer", public, "what a miner must be told", h.disclaimer},
		{"GET", v1 + "/disclaimer.md", public, "the same as Markdown", h.disclaimerText},
		{"GET", v1 + "/openapi.json", public, "this document", h.openapi},
		{"GET", "/status", public, "version, tasks and the contract in use", h.status},
		{"GET", "/redoc", public, "the routes as a page", h.docs},

		{"GET", v1 + "/tasks", public, "list tasks", h.tasks},
		{"POST", v1 + "/tasks", byAdmin, "create a task", h.createTask},
		{"GET", v1 + "/tasks/{id}", public, "one task", func(w http.ResponseWriter, r *http.Request) {
			v, err := h.Coordinator.Task(r.Context(), r.PathValue("id"))
			h.send(w, r, v, err)
		}},
		{"GET", v1 + "/tasks/{id}/onboard.md", public, "the contract of a task", h.onboard},
		{"GET", v1 + "/tasks/{id}/best", public, "the present best", func(w http.ResponseWriter, r *http.Request) {
			v, err := h.Coordinator.Best(r.Context(), r.PathValue("id"))
			h.send(w, r, v, err)
		}},
		{"GET", v1 + "/tasks/{id}/records", public, "the ledger of bests", func(w http.ResponseWriter, r *http.Request) {
			v, err := h.Coordinator.Records(r.Context(), r.PathValue("id"), limit(r))
			h.send(w, r, v, err)
		}},
		{"GET", v1 + "/tasks/{id}/members", public, "the record of each member of a suite", func(w http.ResponseWriter, r *http.Request) {
			v, err := h.Coordinator.Members(r.Context(), r.PathValue("id"))
			h.send(w, r, v, err)
		}},
		{"POST", v1 + "/tasks/{id}/pause", byAdmin, "take no claims and submissions", h.setState(coordinator.StatePaused)},
		{"POST", v1 + "/tasks/{id}/resume", byAdmin, "take them again", h.setState(coordinator.StateLive)},
		{"POST", v1 + "/tasks/{id}/close", byAdmin, "close for good", h.setState(coordinator.StateClosed)},
		{"POST", v1 + "/tasks/{id}/claim", byMiner, "claim a task", h.claimTask},

		{"POST", v1 + "/planner/run", byAdmin, "open work items", h.admin(h.plan)},
		{"POST", v1 + "/planner/run-agentic", byAdmin, "open work items of one task that a model proposes", h.admin(h.planAgentic)},
		{"GET", v1 + "/work-items", public, "list work items", h.workItems},
		{"POST", v1 + "/work-items/{id}/claim", byMiner, "claim a work item", h.claimItem},

		{"GET", v1 + "/claims", public, "list claims", h.claims},
		{"GET", v1 + "/claims/{id}", public, "one claim", func(w http.ResponseWriter, r *http.Request) {
			v, err := h.Coordinator.ClaimByID(r.Context(), r.PathValue("id"))
			h.send(w, r, v, err)
		}},
		{"POST", v1 + "/claims/{id}/cancel", byHotkey, "cancel a claim of one's own", h.cancel},

		{"GET", v1 + "/submissions", list, "list submissions", h.submissions},
		{"POST", v1 + "/submissions", byMiner, "submit", h.submit},
		{"GET", v1 + "/submissions/{id}", public, "one submission", func(w http.ResponseWriter, r *http.Request) {
			v, err := h.Coordinator.Submission(r.Context(), r.PathValue("id"))
			h.send(w, r, v, err)
		}},
		{"GET", v1 + "/submissions/{id}/detail", maybeSign, "all of one submission", h.detail},
		{"GET", v1 + "/submissions/{id}/execution.log", maybeSign, "the miner's log", h.executionLog},
		{"GET", v1 + "/submissions/{id}/artifact", public, "redirects to the artifact", h.artifact},
		{"GET", v1 + "/submissions/{id}/peer-consensus", public, "how its peers stand", func(w http.ResponseWriter, r *http.Request) {
			v, err := h.Coordinator.Consensus(r.Context(), r.PathValue("id"))
			h.send(w, r, v, err)
		}},
		{"GET", v1 + "/submissions/{id}/export.jsonl", maybeSign, "one trajectory", h.export},
		{"GET", v1 + "/submissions/{id}/replay.log", byAdmin, "the newest replay log", h.admin(h.replayLog)},
		{"POST", v1 + "/submissions/{id}/requeue", byAdmin, "replay again", h.admin(h.requeue)},
		{"POST", v1 + "/submissions/{id}/verify", byStaff, "report a replay without a job (legacy)", h.verify},
		{"POST", v1 + "/submissions/{id}/peer-evaluate", byMiner, "evaluate another miner's submission", h.peerEvaluate},
		{"GET", v1 + "/verifications", public, "list replays", h.verifications},
		{"GET", v1 + "/peer-evaluations", public, "list peer evaluations", h.peers},

		{"POST", v1 + "/validator/submissions/scan", byStaff, "the worklist", h.scan},
		{"POST", v1 + "/validator/jobs/claim", byStaff, "one job (legacy)", h.claimJob},
		{"POST", v1 + "/validator/jobs/{id}/result", byStaff, "report a job", h.result},
		{"POST", v1 + "/validator/jobs/{id}/heartbeat", byStaff, "tell that a job is under way: it is held longer", h.heartbeat},
		{"GET", v1 + "/validators", public, "validators with their canaries", h.validators},
		{"POST", v1 + "/canaries", byAdmin, "make a submission a canary", h.admin(h.canary)},

		{"GET", v1 + "/idea-rewards", public, "list idea rewards", h.ideas},
		{"GET", v1 + "/reward-snapshot", public, "what is rewarded now", h.snapshot},
		{"GET", v1 + "/reward-policy", byAdmin, "the reward policy and its history", h.admin(h.policy)},
		{"PUT", v1 + "/reward-policy", byAdmin, "a new version of the reward policy", h.admin(h.putPolicy)},
		{"GET", v1 + "/onchain/status", public, "the contract in use", h.onchain},
		{"GET", v1 + "/dashboard", public, "totals", h.dashboard},
	}
	out = append(out, h.rewardRoutes()...)
	return append(out, h.sotaRoutes()...)
}

func (h *handler) git(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutSuffix(r.PathValue("repo"), ".git")
	if !ok {
		name = r.PathValue("repo")
	}
	repo, ok := h.Coordinator.Repo(name)
	if !ok {
		http.NotFound(w, r)
		return
	}
	http.StripPrefix("/git/"+r.PathValue("repo"), repo).ServeHTTP(w, r)
}

func (h *handler) ready(w http.ResponseWriter, r *http.Request) {
	if _, err := h.Coordinator.Tasks(r.Context()); err != nil {
		h.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// schemes are the security schemes of the document.
var schemes = map[string]any{
	byHotkey: map[string]any{"type": "apiKey", "in": "header", "name": "X-Signature", "description": "BT-AUTH-V1: X-Hotkey, X-Timestamp, X-Signature over method, path, query, time and canonical body"},
	byMiner:  map[string]any{"type": "apiKey", "in": "header", "name": "X-Signature", "description": "BT-AUTH-V1 by a registered hotkey with enough stake"},
	byStaff:  map[string]any{"type": "apiKey", "in": "header", "name": "X-Signature", "description": "BT-AUTH-V1 by a hotkey with a validator permit"},
	byAdmin:  map[string]any{"type": "apiKey", "in": "header", "name": adminHeader},
}

// status is what tools ask before they work with a coordinator.
func (h *handler) status(w http.ResponseWriter, r *http.Request) {
	tasks, err := h.Coordinator.Tasks(r.Context())
	if err != nil {
		h.fail(w, r, err)
		return
	}
	live := 0
	for _, t := range tasks {
		if t.State == coordinator.StateLive {
			live++
		}
	}
	epochs, err := h.Coordinator.Epochs(r.Context())
	if err != nil {
		h.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, map[string]any{
		"status": "ok", "service": "agon research coordinator", "version": h.Version, "tasks": len(tasks), "live_tasks": live, "epochs": len(epochs),
		"openapi": "/api/v1/openapi.json",
	})
}

// docsPage lists the routes without a script: it is a page for people.
var docsPage = template.Must(template.New("docs").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Routes of the research coordinator</title>
<meta name="viewport" content="width=device-width"><style>body{font:16px/1.5 system-ui;margin:2rem auto;max-width:60rem;padding:0 1rem}td,th{text-align:left;padding:.2rem 1rem .2rem 0;vertical-align:top}code{overflow-wrap:anywhere}</style></head>
<body><h1>Routes of the research coordinator</h1>
<p>The same as <a href="/api/v1/openapi.json">OpenAPI 3.1</a>. Who signs: hotkey, miner (with stake), validator (with a permit), or the admin's token.</p>
<table><thead><tr><th>Method</th><th>Path</th><th>Signed by</th><th>What it does</th></tr></thead><tbody>
{{range .}}<tr><td>{{.Method}}</td><td><code>{{.Path}}</code></td><td>{{or .Auth "nobody"}}</td><td>{{.About}}</td></tr>
{{end}}</tbody></table></body></html>
`))

func (h *handler) docs(w http.ResponseWriter, _ *http.Request) {
	type row struct{ Method, Path, Auth, About string }
	var rows []row
	for _, r := range h.routes() {
		rows = append(rows, row{r.method, r.path, r.auth, r.about})
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	if err := docsPage.Execute(w, rows); err != nil && h.Log != nil {
		h.Log.Warn("write the page of routes", "error", err)
	}
}

func (h *handler) openapi(w http.ResponseWriter, _ *http.Request) {
	paths := map[string]map[string]any{}
	for _, r := range h.routes() {
		op := map[string]any{"summary": r.about, "responses": map[string]any{"200": map[string]string{"description": "ok"}}}
		var params []map[string]any
		for seg := range strings.SplitSeq(r.path, "/") {
			if name, ok := strings.CutPrefix(seg, "{"); ok {
				params = append(params, map[string]any{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": map[string]string{"type": "string"}})
			}
		}
		if params != nil {
			op["parameters"] = params
		}
		switch r.auth {
		case public:
			op["security"] = []any{}
		case maybeSign:
			op["security"] = []any{map[string]any{}, map[string]any{byHotkey: []any{}}}
		default:
			op["security"] = []any{map[string]any{r.auth: []any{}}}
		}
		if paths[r.path] == nil {
			paths[r.path] = map[string]any{}
		}
		paths[r.path][strings.ToLower(r.method)] = op
	}
	reply(w, http.StatusOK, map[string]any{
		"openapi": "3.1.0", "info": map[string]string{"title": "agon research coordinator", "version": h.Version},
		"paths": paths, "components": map[string]any{"securitySchemes": schemes},
	})
}
