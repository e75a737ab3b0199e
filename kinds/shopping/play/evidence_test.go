package play

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/corpus/trajectory"
	"github.com/agon-arena/agon/gateway"
)

// log builds a session's events.
type events struct {
	t    *testing.T
	list []agon.Event
}

func (e *events) add(typ string, data any) {
	b, err := json.Marshal(data)
	if err != nil {
		e.t.Fatal(err)
	}
	e.list = append(e.list, agon.Event{Seq: int64(len(e.list) + 1), Type: typ, Data: b})
}

func (e *events) model(tokens int64, m gateway.Message) {
	e.add(agon.EventModel, gateway.ModelCall{Receipt: agon.Receipt{ID: fmt.Sprintf("m%d", len(e.list)), Model: "m", Status: 200, Outcome: "ok", Completion: tokens}, Message: &m})
}

func (e *events) tool(name, args string) {
	e.add(agon.EventTool, gateway.ToolCallEvent{
		Receipt: agon.Receipt{ID: fmt.Sprintf("t%d", len(e.list)), Model: name, Status: 200, Outcome: "ok"}, Arguments: json.RawMessage(args),
		Response: gateway.Body{Text: `[{"product_id":"7"}]`}, Nonce: "missing",
	})
}

func text(calls string) gateway.Message {
	return gateway.Message{Content: "<think>x</think>\n<tool_call>" + calls + "</tool_call>"}
}

// Row 34's agents: the ratio is that of the dispatches which a model asked for,
// never what an episode says.
func TestAgenticRatio(t *testing.T) {
	for name, c := range map[string]struct {
		build func(*events)
		ratio float64
		none  bool
		how   string // of every tool call, in order
	}{
		"pure ReAct": {func(e *events) {
			e.model(50, text(`[{"name":"find_product","parameters":{"q":"red lamp","page":1,"sort":"default"}}]`))
			e.tool("find_product", `{"q":"red+lamp","page":"1"}`) // the reference agent quotes twice
			e.model(50, gateway.Message{ToolCalls: []gateway.ToolCall{{ID: "a", Name: "view_product_information", Arguments: `{"product_ids":"1, 2"}`}}})
			e.tool("view_product_information", `{"product_ids":"1,2"}`)
		}, 1, false, "order order"},
		"script": {func(e *events) {
			e.tool("find_product", `{"q":"lamp"}`)
			e.tool("find_product", `{"q":"lamp"}`)
		}, 0, false, " "},
		"script with a narrator": {func(e *events) {
			e.model(500, gateway.Message{Content: "I shall search for a lamp."})
			e.tool("find_product", `{"q":"lamp"}`)
			e.model(500, gateway.Message{Content: "I found it."})
		}, 0, false, ""},
		"half": {func(e *events) {
			e.model(50, text(`{"name":"find_product","parameters":{"q":"lamp"}}`))
			e.tool("find_product", `{"q":"lamp"}`)
			e.tool("find_product", `{"q":"chair"}`)
		}, .5, false, "order "},
		"other arguments": {func(e *events) {
			e.model(50, text(`{"name":"find_product","parameters":{"q":"lamp"}}`))
			e.tool("find_product", `{"q":"lamp","page":"2"}`)
		}, 0, false, ""},
		"asked, done twice": {func(e *events) {
			e.model(50, text(`{"name":"find_product","parameters":{"q":"lamp"}}`))
			e.tool("find_product", `{"q":"lamp"}`)
			e.tool("find_product", `{"q":"lamp"}`)
		}, .5, false, "order "},
		"a new reply replaces what was asked": {func(e *events) {
			e.model(50, text(`{"name":"find_product","parameters":{"q":"lamp"}}`))
			e.model(50, gateway.Message{Content: "hm"})
			e.tool("find_product", `{"q":"lamp"}`)
		}, 0, false, ""},
		"skipped": {func(e *events) {
			e.model(50, text(`[{"name":"find_product","parameters":{"q":"a"}},{"name":"find_product","parameters":{"q":"b"}}]`))
			e.tool("find_product", `{"q":"b"}`)
			e.tool("find_product", `{"q":"a"}`)
		}, .5, false, "order "},
		"a call of several": {func(e *events) {
			e.model(50, text(`[{"name":"find_products_in_same_shop","parameters":{"product_queries":"[{\"q\":\"red lamp\"},{\"q\":\"green garden chair\"}]"}},{"name":"check_product_match","parameters":{"product_id":"7","requirements":"{}"}}]`))
			e.tool("find_product", `{"q":"red lamp","page":"1"}`)
			e.tool("find_product", `{"q":"green garden","page":"1","shop_id":"3"}`)
			e.tool("find_product", `{"q":"spoon","page":"1"}`)
			e.tool("view_product_information", `{"product_ids":"7"}`)
			e.tool("view_product_information", `{"product_ids":"8"}`)
		}, .6, false, "part part  part "},
		"nothing": {func(*events) {}, 0, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := &events{t: t}
			c.build(e)
			ev, err := Gather(e.list)
			if err != nil {
				t.Fatal(err)
			}
			ratio, ok := ev.Ratio()
			if ratio != c.ratio || ok == c.none {
				t.Errorf("ratio %v %t, want %v", ratio, ok, c.ratio)
			}
			var how []string
			for _, x := range ev.Calls {
				if x.Kind == CallTool {
					how = append(how, x.Credit)
				}
			}
			if got := strings.Join(how, " "); got != c.how {
				t.Errorf("credits %q, want %q", got, c.how)
			}
			if n := strings.Count(ev.Text(), ": credited to the model"); n != ev.Credited {
				t.Errorf("%d of %d credits are shown:\n%s", n, ev.Credited, ev.Text())
			}
		})
	}
}

func TestEvidenceCounts(t *testing.T) {
	e := &events{t: t}
	e.model(12, gateway.Message{Content: "a"})
	e.model(40, gateway.Message{Content: "b"})
	e.add(agon.EventModel, gateway.ModelCall{Receipt: agon.Receipt{ID: "x", Model: "m", Status: 503, Outcome: "provider_error", Completion: 999}})
	e.tool("find_product", `{"q":"lamp"}`)
	e.add(agon.EventRefused, gateway.Refused{Route: "/x", Status: 403})
	e.add(agon.EventNote, gateway.Note{Text: "hello"})
	ev, err := Gather(e.list)
	if err != nil || ev.Models != 3 || ev.Tools != 1 || ev.Failed != 1 || ev.Refused != 1 || ev.Completion != 52 || ev.LongCompletion != 40 || len(ev.Calls) != 4 || ev.Calls[3].IDs[0] != "7" {
		t.Errorf("%v %+v", err, ev)
	}
	if _, err := Gather([]agon.Event{{Type: agon.EventTool, Data: json.RawMessage(`[]`)}}); err == nil {
		t.Error("an event of another form became evidence")
	}
}

// Who calls without end fills no disk: what is kept is bounded, what is counted is not.
func TestEvidenceIsBounded(t *testing.T) {
	e := &events{t: t}
	long := strings.Repeat("x", 1900)
	for range maxCalls + 50 {
		e.tool("find_product", fmt.Sprintf(`{"q":%q}`, long))
	}
	ev, err := Gather(e.list)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(ev)
	if err != nil || ev.Tools != maxCalls+50 || ev.Cut != 50 || len(ev.Calls) != maxCalls || len(b) > 2*maxEvidence {
		t.Errorf("%v: %d calls, %d cut, %d bytes", err, ev.Tools, ev.Cut, len(b))
	}
}

// What the problems of a run leave together is bounded too, by the agent's failure.
func TestRunIsBounded(t *testing.T) {
	const limit = 12_000
	noise := make([]byte, 1000)
	r := rand.New(rand.NewPCG(1, 1))
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-"
	for i := range noise {
		noise[i] = letters[r.IntN(len(letters))]
	}
	d := json.RawMessage(`[{"completion":{"message":{"think":"` + string(noise) + `"}}}]`)
	var spec agon.RunSpec
	var all []played
	for i := range 20 {
		spec.Tasks = append(spec.Tasks, agon.TaskRef{Key: fmt.Sprint(i)})
		all = append(all, played{Envelope{Status: StatusSuccess, Dialogue: d}, &Evidence{}})
	}
	rec, err := record(spec, all, limit)
	if err != nil || rec.Outcome != agon.OutcomeOK || rec.Tasks["0"] != agon.OutcomeOK || rec.Tasks["19"] != OutcomeFailed {
		t.Fatalf("%v %s %v", err, rec.Outcome, rec.Tasks)
	}
	total := 0
	for i := range all {
		if rec.Tasks[fmt.Sprint(i)] == agon.OutcomeOK {
			total += len(rec.Files[episodeFile(i)])
		}
	}
	if total > limit || total < limit/2 {
		t.Errorf("%d bytes of %d", total, limit)
	}
}

func FuzzArgs(f *testing.F) {
	for _, s := range []string{`{"q":"a b","page":1}`, `{"q":null}`, `[]`, `{"product_ids":"1, 2,"}`, `{"a":1e400}`, `{"product_queries":"[{}]"}`, ``} {
		f.Add(s, `{"q":"a+b"}`)
	}
	f.Fuzz(func(t *testing.T, model, sent string) {
		q := trajectory.NewCreditor(credits())
		q.Model("m", []trajectory.SaidCall{{Name: "find_product", Arguments: model}, {Name: "find_products_in_same_shop", Arguments: model}, {Name: "check_product_match", Arguments: model}})
		call := trajectory.SaidCall{Name: "find_product", Arguments: sent}
		if first := q.Tool(call, ""); first.How == CreditOrder && q.Tool(call, "").How == CreditOrder {
			t.Fatal("a credit that takes nothing")
		}
	})
}

func FuzzEpisode(f *testing.F) {
	for _, s := range []string{
		"agon-episode 2\n{}\n", "agon-episode 20\n{\"status\":\"SUCCESS\"}\n", "agon-episode -1\n", "agon-episode 99999999999999999999\n", "x",
		"agon-episode 56\n{\"status\":\"SUCCESS\",\"dialogue\":[{\"completion\":{\"x\":1}}]}\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var e Envelope
		readEpisode(&e, b)
		switch {
		case e.Status == StatusSuccess && e.Error == nil && (e.Dialogue == nil || checkSteps(e.Dialogue) == ""):
		case e.Status == StatusFailed && e.Error != nil && e.Dialogue == nil:
		default:
			t.Fatalf("neither an episode nor a failure: %+v", e)
		}
		if p, err := pack(e); err == nil {
			if _, err := ReadEnvelope(p); err != nil {
				t.Fatal(err)
			}
		}
		_ = readSteps(e.Dialogue)
	})
}
