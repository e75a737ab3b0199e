package corpus

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/corpus/trajectory"
)

// Forms of foreign trajectories.
const (
	FormATIF     = "atif"        // ATIF documents
	FormMessages = "messages"    // {messages, tools}: OpenAI's form, also with flat tools or arguments that are objects
	FormShareGPT = "sharegpt"    // {conversations: [{from, value}]}
	FormDialogue = "dialogue"    // steps with completion.message: as ORO's validators upload them, or an envelope around them
	FormStep     = "instruction" // {instruction, input, output}: one step a row, as ShoppingBench trains on
)

// Limits of foreign files.
const (
	MaxImportLine  = 64 << 20 // bytes of a row
	MaxImportRows  = 5_000_000
	maxImportErr   = 20   // wrong rows that are reported one by one
	maxImportCalls = 4096 // messages of a row
)

// ImportConfig configures an import. Files is needed.
type ImportConfig struct {
	Files  []string // JSON or JSON lines, plain or packed with gzip or zstd
	Form   string   // empty: by what each row holds
	Poison *Poison
	Finals Finals
	Kind   string // of the tasks; empty: as the rows say, else "imported"
	// Out is the directory to make; empty: only the audit. Licence is then needed.
	Out, Licence string
	Name         string // of the data set; empty: that of the first file
	Salt         string
	Progress     func(rows int) // Optional.
}

// Audit is what an import says of foreign rows.
type Audit struct {
	Name    string         `json:"name"`
	Read    int            `json:"read"` // rows that parse
	Rows    int            `json:"rows"` // of these, what is left: no duplicates, nothing of a list, whole
	Forms   map[string]int `json:"forms"`
	Axis    map[string]int `json:"axis"` // as the rows say: no gateway vouches for it
	Invalid int            `json:"invalid"`
	// Errors are the first rows that were passed over: file, row (its line, or its place in a list), what is wrong.
	Errors []string `json:"errors"`
	// Dropped are the first rows that parse and are of no use: file, row, and why, by the
	// names in Rejected. What fell as a duplicate or by a list is only counted.
	Dropped []string `json:"dropped"`
	// Queries are the different questions, RowsPerQuery how many rows there are of each on average.
	Queries      int            `json:"distinct_queries"`
	RowsPerQuery float64        `json:"rows_per_query"`
	Clusters     int            `json:"leak_clusters"`
	Duplicates   int            `json:"duplicates"`
	Near         int            `json:"near_duplicates"`
	Rejected     map[string]int `json:"rejected"`
	// Overlap is what each list of public benchmarks found.
	Overlap  []ListNote     `json:"overlap"`
	Scrubbed map[string]int `json:"scrubbed"`
	Dir      string         `json:"dir,omitempty"`
}

// Import reads trajectories of others and audits them as rows of our own are:
// structure, scrubbing, duplicates, leak clusters, public benchmarks. With Out it
// writes them as a corpus. Wrong rows are named and passed over.
func Import(ctx context.Context, cfg ImportConfig) (*Audit, error) {
	if len(cfg.Files) == 0 {
		return nil, errors.New("import: Files is needed")
	}
	if cfg.Out != "" {
		if cfg.Licence == "" {
			return nil, &agon.Error{Code: "licence", Status: 422, Field: "licence", Message: "a corpus needs the licence of its rows", Mend: "name it, as SPDX does: --licence CC-BY-4.0"}
		}
		if _, err := os.Lstat(cfg.Out); err == nil {
			return nil, &agon.Error{Code: "exists", Status: 409, Field: "out", Message: cfg.Out + " is there already", Mend: "name a new directory"}
		}
	}
	cfg.Name = cmp.Or(cfg.Name, filepath.Base(cfg.Files[0]))
	parent := os.TempDir()
	if cfg.Out != "" {
		parent = filepath.Dir(filepath.Clean(cfg.Out))
	}
	tmp, err := os.MkdirTemp(parent, ".corpus-")
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	defer os.RemoveAll(tmp)
	const all = 1 << 40 // duplicates go, nothing else is thinned out
	c := Config{Poison: cfg.Poison, Salt: cmp.Or(cfg.Salt, "agon"), PerCluster: all, PerColdkey: all, PerAgent: all, EvalShare: 0.15, HeldShare: 0.05, Finals: cfg.Finals}
	b := newBuilder(ctx, c)
	if b.spool, err = os.Create(filepath.Join(tmp, "spool")); err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	defer b.spool.Close()
	b.w = bufio.NewWriterSize(b.spool, 1<<20)
	im := &importer{cfg: cfg, b: b, out: &Audit{Name: cfg.Name, Forms: map[string]int{}, Axis: map[string]int{}, Errors: []string{}, Dropped: []string{}}}
	for _, f := range cfg.Files {
		if err := im.file(f); err != nil {
			return nil, err
		}
	}
	if err := b.w.Flush(); err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	if err := b.choose(); err != nil {
		return nil, err
	}
	a := im.out
	clusters := map[string]bool{}
	for _, k := range b.rows {
		clusters[k.cluster] = true
	}
	a.Rows, a.Clusters, a.Queries, a.Rejected, a.Overlap, a.Scrubbed = len(b.rows), len(clusters), len(b.asked), b.report.Rejected, b.report.Contamination, b.scrub.Counts
	a.Duplicates, a.Near = b.report.Rejected[RejectDuplicate], b.report.Rejected[RejectNear]
	if a.Queries > 0 {
		a.RowsPerQuery = round(float64(im.kept)/float64(a.Queries), 2)
	}
	if cfg.Out == "" {
		return a, nil
	}
	dir := filepath.Join(tmp, "out")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	if err := b.write(dir); err != nil {
		return nil, err
	}
	if err := os.Rename(dir, cfg.Out); err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	a.Dir = cfg.Out
	return a, nil
}

type importer struct {
	cfg  ImportConfig
	b    *builder
	out  *Audit
	kept int // rows that were looked at for duplicates
}

// bad notes a row that is passed over.
func (im *importer) bad(file string, line int, err error) {
	im.out.Invalid++
	if len(im.out.Errors) < maxImportErr {
		im.out.Errors = append(im.out.Errors, fmt.Sprintf("%s, row %d: %.300s", filepath.Base(file), line, err))
	}
}

// file reads the rows of one file: as values, or, where it does not begin with one, as
// lines, of which some may be.
func (im *importer) file(name string) error {
	err := im.read(name, eachRow)
	if errors.Is(err, errNoValue) {
		why := err
		err = im.read(name, func(in *bufio.Reader, do func(int, json.RawMessage, error) error) error {
			return eachLineOf(in, why, do)
		})
	}
	return err
}

// read gives the values of a file, as each finds them, to the builder.
func (im *importer) read(name string, each func(in *bufio.Reader, do func(n int, raw json.RawMessage, err error) error) error) error {
	f, err := os.Open(name)
	if err != nil {
		return &agon.Error{Code: "not_found", Status: 404, Field: "file", Message: err.Error()}
	}
	defer f.Close()
	in, err := unpacked(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return &agon.Error{Code: "bad_file", Status: 422, Field: "file", Message: name + ": " + err.Error()}
	}
	type line struct {
		n      int
		raw    json.RawMessage
		err    error
		rows   []looked
		form   string
		failed error // ours
	}
	var broke error
	lines := func(yield func(line) bool) {
		broke = each(in, func(n int, raw json.RawMessage, err error) error {
			if !yield(line{n: n, raw: raw, err: err}) {
				return errLeft
			}
			return nil
		})
	}
	for l := range ahead(lines, func(l line) line {
		if l.err != nil {
			return l
		}
		rows, form, err := im.rows(l.raw)
		l.form, l.err = form, err
		for i, r := range rows {
			x, err := im.look(r, fmt.Sprintf("%s:%d.%d", filepath.Base(name), l.n, i))
			if err != nil {
				l.failed = err
			}
			l.rows = append(l.rows, x)
		}
		return l
	}) {
		if err := im.b.ctx.Err(); err != nil {
			return err
		}
		if im.out.Read >= MaxImportRows {
			return &agon.Error{Code: "too_large", Status: 413, Field: "file", Limit: strconv.Itoa(MaxImportRows) + " rows", Message: name + " has more rows"}
		}
		if l.err != nil {
			im.bad(name, l.n, l.err)
			continue
		}
		if l.failed != nil {
			return l.failed
		}
		for _, r := range l.rows {
			im.out.Read++
			im.out.Forms[l.form]++
			if err := im.keep(r); err != nil {
				return err
			}
			if r.dropped != "" && len(im.out.Dropped) < maxImportErr {
				im.out.Dropped = append(im.out.Dropped, fmt.Sprintf("%s, row %d: %s", filepath.Base(name), l.n, r.dropped))
			}
		}
		if im.cfg.Progress != nil {
			im.cfg.Progress(im.out.Read)
		}
	}
	return broke // the reader has ended
}

// errLeft ends eachRow early; its caller knows why.
var errLeft = errors.New("enough")

// foreign is a row as far as any of the forms has it.
type foreign struct {
	Schema        string           `json:"schema_version"`
	Messages      []foreignMessage `json:"messages"`
	Tools         json.RawMessage  `json:"tools"`
	Conversations []foreignSaid    `json:"conversations"`
	Dialogue      []foreignStep    `json:"dialogue"`
	ProblemID     string           `json:"problem_id"`
	Query         string           `json:"query"`
	Instruction   *string          `json:"instruction"`
	Input         string           `json:"input"`
	Output        string           `json:"output"`
	Model         string           `json:"model"`
	Reward        json.RawMessage  `json:"reward"`
	Score         *float64         `json:"score"`
	Split         json.RawMessage  `json:"split"`
	Success       *bool            `json:"success"`
}

type foreignMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Reasoning  string          `json:"reasoning_content"`
	Name       string          `json:"name"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []foreignCall   `json:"tool_calls"`
}

type foreignCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

type foreignSaid struct {
	From  string `json:"from"`
	Value string `json:"value"`
}

type foreignStep struct {
	Completion struct {
		Message struct {
			Think    string          `json:"think"`
			ToolCall json.RawMessage `json:"tool_call"`
			Response string          `json:"response"`
		} `json:"message"`
	} `json:"completion"`
	Info struct {
		Query     string `json:"query"`
		ProblemID string `json:"problem_id"`
	} `json:"extra_info"`
}

// rows reads one value: a row, or an episode.
func (im *importer) rows(raw json.RawMessage) ([]*Row, string, error) {
	if !utf8.Valid(raw) {
		return nil, "", errors.New("not UTF-8")
	}
	if raw[0] == '[' {
		raw = append(append([]byte(`{"dialogue":`), raw...), '}')
	}
	var x foreign
	if err := json.Unmarshal(raw, &x); err != nil {
		return nil, "", fmt.Errorf("not a row: %w", err)
	}
	form := im.cfg.Form
	if form == "" {
		switch {
		case strings.HasPrefix(x.Schema, "ATIF"):
			form = FormATIF
		case len(x.Messages) > 0:
			form = FormMessages
		case len(x.Conversations) > 0:
			form = FormShareGPT
		case len(x.Dialogue) > 0:
			form = FormDialogue
		case x.Instruction != nil && x.Output != "":
			form = FormStep
		default:
			return nil, "", errors.New("of no form that is read: want ATIF, messages, conversations, dialogue, or instruction and output")
		}
	}
	r := &Row{Tools: []json.RawMessage{}, From: Provenance{Model: x.Model}}
	if string(x.Split) == `"`+Held+`"` {
		r.Split = Held
	}
	switch form {
	case FormATIF:
		d, err := ParseATIF(raw)
		if err != nil {
			return nil, "", err
		}
		r.Messages, r.Tools, r.From.Model = d.chat(), append(r.Tools, d.Agent.Tools...), d.Agent.Model
		r.From.Kind = d.Extra.Kind
		if x := d.Extra.Dispatches; x != nil && x.Credited >= 0 && x.Metered >= x.Credited {
			r.Dispatches = Dispatches{x.Metered, x.Credited}
		}
	case FormMessages:
		r.Messages = chatOfForeign(x.Messages)
		r.Tools = append(r.Tools, toolsOfForeign(x.Tools)...)
	case FormShareGPT:
		for _, m := range x.Conversations {
			role := map[string]string{"human": "user", "gpt": "assistant", "observation": "tool", "function_response": "tool", "system": "system", "user": "user", "assistant": "assistant", "tool": "tool", "function_call": "assistant"}[m.From]
			r.Messages = append(r.Messages, Message{Role: cmp.Or(role, "user"), Content: m.Value})
		}
	case FormDialogue:
		r.Messages = chatOfSteps(x)
	case FormStep:
		r.Messages = []Message{{Role: "system", Content: *x.Instruction}, {Role: "user", Content: x.Input}, {Role: "assistant", Content: x.Output}}
	default:
		return nil, "", fmt.Errorf("form %.40q is not read", form)
	}
	if len(r.Messages) == 0 || len(r.Messages) > maxImportCalls {
		return nil, "", fmt.Errorf("%d messages: want 1 to %d", len(r.Messages), maxImportCalls)
	}
	r.Messages = spokenCalls(r.Messages)
	reward(r, &x)
	return []*Row{r}, form, nil
}

func chatOfForeign(list []foreignMessage) []Message {
	out := make([]Message, 0, len(list))
	seen, names := map[string]bool{}, map[string]string{}
	now := map[string][]string{} // ids of ours for one of theirs, which may repeat it: answers come in order
	for i, m := range list {
		x := Message{Role: m.Role, Content: plainText(m.Content), Reasoning: m.Reasoning}
		switch m.Role {
		case "assistant":
			for _, c := range m.ToolCalls {
				delete(now, c.ID)
			}
			for j, c := range m.ToolCalls {
				name, args := cmp.Or(c.Function.Name, c.Name), c.Function.Arguments
				if len(args) == 0 {
					args = c.Arguments
				}
				var text string
				if json.Unmarshal(args, &text) != nil {
					text = arguments(args)
				}
				id := c.ID
				if id == "" || seen[id] {
					id = strconv.Itoa(i+1) + "_" + strconv.Itoa(j) + "_" + c.ID
				}
				seen[id] = true
				now[c.ID], names[id] = append(now[c.ID], id), name
				x.ToolCalls = append(x.ToolCalls, ToolCall{ID: id, Type: "function", Function: Function{Name: name, Arguments: text}})
			}
		case "tool", "function":
			x.Role, x.ToolCallID = "tool", m.ToolCallID
			if ids := now[m.ToolCallID]; len(ids) > 0 {
				x.ToolCallID = ids[0]
				now[m.ToolCallID] = ids[min(1, len(ids)-1):]
			}
			x.Name = cmp.Or(names[x.ToolCallID], m.Name)
		case "system", "user":
		case "developer":
			x.Role = "system"
		default:
			x.Role = "user"
		}
		out = append(out, x)
	}
	return answerInOrder(out)
}

// answerInOrder gives tool messages without an id those of the calls before them, in order.
func answerInOrder(list []Message) []Message {
	var open []ToolCall
	for i := range list {
		m := &list[i]
		switch {
		case m.Role == "assistant":
			open = m.ToolCalls
		case m.Role == "tool" && m.ToolCallID == "" && len(open) > 0:
			m.ToolCallID, m.Name = open[0].ID, open[0].Function.Name
			open = open[1:]
		}
	}
	return list
}

func toolsOfForeign(raw json.RawMessage) []json.RawMessage {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text) // a column of JSON text
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

// chatOfSteps tells an episode of steps as a conversation. Its prompt is not in
// it: the problem's query is the first message.
func chatOfSteps(x foreign) []Message {
	query := x.Query
	for _, s := range x.Dialogue {
		query = cmp.Or(query, s.Info.Query)
	}
	out := []Message{{Role: "user", Content: query}}
	for i, s := range x.Dialogue {
		m := Message{Role: "assistant", Content: s.Completion.Message.Response, Reasoning: s.Completion.Message.Think}
		var calls []struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
			Result     json.RawMessage `json:"result"`
		}
		var tools []Message
		if json.Unmarshal(s.Completion.Message.ToolCall, &calls) == nil {
			for j, c := range calls {
				id := "said_" + strconv.Itoa(i+1) + "_" + strconv.Itoa(j)
				m.ToolCalls = append(m.ToolCalls, ToolCall{ID: id, Type: "function", Function: Function{Name: c.Name, Arguments: cmp.Or(arguments(c.Parameters), "{}")}})
				tools = append(tools, Message{Role: "tool", ToolCallID: id, Name: c.Name, Content: plainText(c.Result)})
			}
		}
		out = append(append(out, m), tools...)
	}
	return out
}

// spokenCalls makes calls that stand in an assistant's text calls by name, and
// the message after them their answer.
func spokenCalls(list []Message) []Message {
	var out []Message
	var open []ToolCall
	for i, m := range list {
		if len(open) > 0 && (m.Role == "user" || m.Role == "tool" && m.ToolCallID == "") {
			for j, c := range open {
				text := m.Content
				if j > 0 {
					text = "(answered with the call before)"
				}
				out = append(out, Message{Role: "tool", ToolCallID: c.ID, Name: c.Function.Name, Content: text})
			}
			open = nil
			continue
		}
		open = nil
		if m.Role == "assistant" && len(m.ToolCalls) == 0 {
			if calls, rest, think := trajectory.Spoken(m.Content); len(calls) > 0 {
				m.Content, m.Reasoning = rest, strings.TrimSpace(m.Reasoning+"\n\n"+think)
				for j, c := range calls {
					m.ToolCalls = append(m.ToolCalls, ToolCall{ID: "said_" + strconv.Itoa(i) + "_" + strconv.Itoa(j), Type: "function", Function: Function{Name: c.Name, Arguments: c.Arguments}})
				}
				open = m.ToolCalls
			}
		}
		out = append(out, m)
	}
	return out
}

// looked is a row as the filter of ours looks at one, before it is compared with others.
type looked struct {
	row      *Row
	task     agon.TaskRef
	scrubbed map[string]int
	spool    []byte // spoolOf the row
	dropped  string // why it is of no use; "": it is
}

// look does all that needs the row alone. Several goroutines call it.
func (im *importer) look(r *Row, where string) (looked, error) {
	kind := cmp.Or(im.cfg.Kind, r.From.Kind, "imported")
	query := Normalise(r.query())
	t := agon.TaskRef{Key: "imported/" + agon.Sum([]byte(query)).Hex()[:16], Digest: agon.Sum([]byte(query))}
	r.From = Provenance{
		Arena: im.cfg.Name, Kind: kind, Task: t.Key, TaskDigest: t.Digest, Run: where, Submission: im.cfg.Name, Model: r.From.Model,
		Validator: "(imported)", Scorer: "(imported)", Licence: cmp.Or(im.cfg.Licence, "unknown"), Imported: true,
	}
	scrub := im.b.scrub.fork()
	scrub.row(r)
	out := looked{row: r, task: t, scrubbed: scrub.Counts}
	if r.Split == Held {
		out.dropped = RejectHeld
		return out, nil
	}
	calls, credited, models := 0, 0, 0
	for _, m := range r.Messages {
		if m.Role == "assistant" {
			calls += len(m.ToolCalls)
			if !m.harness {
				credited += len(m.ToolCalls)
				models++
			}
		}
	}
	if r.Dispatches.Metered > 0 {
		calls, credited = r.Dispatches.Metered, r.Dispatches.Credited
	}
	if calls > 0 {
		r.Ratio = round(float64(credited)/float64(calls), 6)
	}
	r.Axis = axisOf(r.Ratio, calls, models)
	final := im.cfg.Finals[kind]
	if final != nil {
		r.Messages = final.ended(r.Messages)
	}
	r.Messages = closeLast(r.Messages)
	if why := structure(r.Messages, final); len(why) > 0 {
		out.dropped = why[0]
		return out, nil
	}
	over, n, exact := overLimit(chatText(r.Messages, r.Tools))
	if over {
		out.dropped = RejectTooLong
		return out, nil
	}
	if exact {
		r.Tokens = n
	}
	r.annotate()
	r.ID = agon.Sum(append(appendMessages([]byte(im.cfg.Name+"\x00"+where+"\x00"), r.Messages), '\n')).Hex()[:32]
	var err error
	out.spool, err = spoolOf(r)
	return out, err
}

// keep counts a row, and gives it to the builder if it is of use.
func (im *importer) keep(l looked) error {
	im.b.tallyOf(l.task, im.cfg.Name, l.row)
	im.b.scrub.add(l.scrubbed)
	im.out.Axis[string(l.row.Axis)]++
	if l.dropped != "" {
		im.b.report.reject(l.dropped, l.row.From.Kind)
		return nil
	}
	im.kept++
	return im.b.keep(l.row, l.task, l.spool)
}
