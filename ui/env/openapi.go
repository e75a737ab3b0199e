package env

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/agon-arena/agon"
)

// routes is a mux that knows what it serves.
type routes struct {
	mux  *http.ServeMux
	list []string // "GET /health"
}

func (r *routes) HandleFunc(pattern string, h http.HandlerFunc) {
	r.list = append(r.list, pattern)
	r.mux.HandleFunc(pattern, h)
}

// described is a route as the OpenAPI document has it. body and reply name schemas of
// shapes; "" is none, or one that another specification gives.
type described struct{ route, tag, summary, body, reply string }

// shapes are the schemas: members as "name type", "[]" before the type of a list's items.
// A type that begins with a capital is another shape.
var shapes = map[string]string{
	"Error":     "detail string, code string, field string, limit string, mend string",
	"Pick":      "task string, split string, index integer, seed integer",
	"Range":     "split string, start integer, stop integer",
	"Task":      "key string, prompt string, meta object",
	"Tasks":     "tasks []Task, env_name string",
	"OneTask":   "task Task, env_name string",
	"Tool":      "name string, description string, input_schema object",
	"Tools":     "tools []Tool, terminal_tool any, supports_score_group boolean, message_block_types []string",
	"Create":    "env_name string, task_spec TaskSpec, split string, index integer, seed integer",
	"TaskSpec":  "key string",
	"Session":   "sid string",
	"Call":      "name string, input object, task_id string",
	"Block":     "type string, text string, detail any",
	"Seeded":    "session_id string, task string, prompt string",
	"ToolReply": "output string, done boolean, reward number",
	"Rpc":       "jsonrpc string, id any, method string, params object",
	"RpcAnswer": "jsonrpc string, id any, result any, error object",
	"Verify":    "responses_create_params object, response Response, verifier_metadata Pick",
	"Verified":  "responses_create_params object, response Response, reward number",
	"Response":  "id string, object string, created_at number, model string, output []object, parallel_tool_calls boolean, tool_choice string, tools []object",
	"Client":    "base_url string, api_key string, model string",
	"RunAsk":    "task string, index integer, seed integer, verifier_metadata Pick, client Client, sampling object, responses_create_params object",
	"Run": "run string, task string, seed integer, reward number, solved boolean, fault string, outcome string, detail string, driver object, ms integer, box_ms integer, " +
		"trace Trace, samples []Sample, missing []Missing, response Response, responses_create_params object",
	"Trace": "schema_version integer, turns []Turn",
	"Turn": "node_id string, prompt_token_ids []integer, completion_token_ids []integer, per_token_logps []number, loss_mask []integer, " +
		"request any, response any, metadata TurnMeta",
	"TurnMeta": "parent string, finish_reason string, cut boolean",
	"Sample":   "turns []string, token_ids []integer, mask []integer, logprobs []number",
	"Missing":  "turn string, what string",
}

// spoken are all routes.
var spoken = []described{
	{"GET /openapi.json", "agon", "This document.", "", ""},
	{"GET /version", "ORS", "The server's version.", "", ""},
	{"GET /list_environments", "ORS", "The name of the one environment.", "", "[]string"},
	{"GET /splits", "ORS", "The only split: train.", "", ""},
	{"GET /tools", "ORS", "What a policy may call.", "", "Tools"},
	{"POST /tasks", "ORS", "All tasks, at most 10,000.", "Pick", "Tasks"},
	{"POST /num_tasks", "ORS", "How many.", "Pick", ""},
	{"POST /task", "ORS", "One by its place.", "Pick", "OneTask"},
	{"POST /task_range", "ORS", "A slice; places count from the end where they are negative.", "Range", "Tasks"},
	{"POST /create_session", "ORS", "A name for a session, as server-sent events.", "", ""},
	{"POST /create", "ORS", "Begin the episode of X-Session-ID; task_spec, or split and index.", "Create", "Session"},
	{"POST /ping", "ORS", "Whether the session of X-Session-ID is open.", "", ""},
	{"POST /delete", "ORS", "End the session of X-Session-ID.", "", "Session"},
	{"POST /delete_session", "ORS", "The same.", "", "Session"},
	{"GET /task_tools", "ORS", "The session's tools.", "", "Tools"},
	{"GET /prompt", "ORS", "The session's task.", "", "[]Block"},
	{"GET /messages", "ORS", "The same as a message of the user.", "", "[]object"},
	{"POST /call", "ORS", "Call a tool in the session of X-Session-ID; the same task_id again gets the same answer; server-sent events task_id and end, {ok, output: {blocks, metadata, reward, finished}} or {ok: false, error, reason}.", "Call", ""},
	{"GET /health", "OpenEnv", "Whether the server lives.", "", ""},
	{"GET /metadata", "OpenEnv", "Name, description, version.", "", ""},
	{"GET /schema", "OpenEnv", "The forms of actions, observations and states.", "", ""},
	{"POST /mcp", "OpenEnv", "JSON-RPC 2.0: tools/list, tools/call, openenv/session/create, openenv/session/close.", "Rpc", "RpcAnswer"},
	{"GET /ws", "OpenEnv", "WebSocket, one session a connection: messages {type, data} of the types reset, step, state, mcp, close; answers of the types observation, state, mcp, error. ?session_id= joins a session of /mcp.", "", ""},
	{"POST /seed_session", "NeMo Gym", "Begin a session, whose cookie is set.", "Pick", "Seeded"},
	{"POST /{tool}", "NeMo Gym", "Call a tool of the environment in the cookie's session; the body is its arguments.", "object", "ToolReply"},
	{"POST /verify", "NeMo Gym", "The reward of the session, or of the response's calls made again.", "Verify", "Verified"},
	{"POST /run", "NeMo Gym", "Play the server's agent on a task with the trainer's model, and tell the tokens of each call.", "RunAsk", "Run"},
}

// schemaOf is the schema of a type of shapes.
func schemaOf(typ string) map[string]any {
	item, list := strings.CutPrefix(typ, "[]")
	out := map[string]any{"type": item}
	switch {
	case item == "any":
		out = map[string]any{}
	case shapes[item] != "":
		out = map[string]any{"$ref": "#/components/schemas/" + item}
	}
	if list {
		return map[string]any{"type": "array", "items": out}
	}
	return out
}

func contentOf(typ string) map[string]any {
	return map[string]any{"application/json": map[string]any{"schema": schemaOf(typ)}}
}

// OpenAPI is the document of all routes. ORS's stand with the environment's name before
// them, too.
func OpenAPI() ([]byte, error) {
	schemas := map[string]any{}
	for name, members := range shapes {
		props := map[string]any{}
		for m := range strings.SplitSeq(members, ", ") {
			field, typ, _ := strings.Cut(m, " ")
			props[field] = schemaOf(typ)
		}
		schemas[name] = map[string]any{"type": "object", "properties": props}
	}
	paths := map[string]map[string]any{}
	for _, d := range spoken {
		method, path, _ := strings.Cut(d.route, " ")
		ok := map[string]any{"description": "OK"}
		if d.reply != "" {
			ok["content"] = contentOf(d.reply)
		}
		op := map[string]any{
			"tags": []string{d.tag}, "summary": d.summary,
			"responses": map[string]any{"200": ok, "default": map[string]any{"description": "Why not", "content": contentOf("Error")}},
		}
		if d.body != "" {
			op["requestBody"] = map[string]any{"content": contentOf(d.body)}
		}
		if path == "/{tool}" {
			op["parameters"] = []any{map[string]any{"name": "tool", "in": "path", "required": true, "schema": schemaOf("string")}}
		}
		if paths[path] == nil {
			paths[path] = map[string]any{}
		}
		paths[path][strings.ToLower(method)] = op
	}
	return json.Marshal(map[string]any{
		"openapi":    "3.1.0",
		"info":       map[string]any{"title": "agon env serve", "version": agon.Version, "description": "Tasks of an arena as an environment for reinforcement learning. Routes of ORS stand with the environment's name before them, too."},
		"paths":      paths,
		"components": map[string]any{"schemas": schemas},
	})
}

func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) {
	b, err := OpenAPI()
	if err != nil {
		s.refuse(w, err)
		return
	}
	write(w, http.StatusOK, json.RawMessage(b))
}
