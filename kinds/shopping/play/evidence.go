package play

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/corpus/trajectory"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/internal/plain"
)

// Limits of what evidence keeps of one call.
const (
	maxCallArgs = 2000 // bytes
	maxCallIDs  = 20   // returned product ids
	maxCalls    = 5_000
	maxSaid     = 16 << 10 // bytes of one reply
	maxFacts    = 40       // of one product, each of maxFact bytes at most
	maxFact     = 60
	maxEvidence = 4 << 20 // bytes of arguments in all; calls beyond keep their counts
)

// Kinds of a call.
const (
	CallModel = "model"
	CallTool  = "tool"
)

// Evidence is what the gateway saw of one problem. Nothing in it comes from
// the agent: its own log is not even read.
type Evidence struct {
	Calls []Call `json:"calls"`
	// Models and Tools count calls that reached an upstream or a tool, Failed
	// those of them that failed, Refused those that the gateway refused.
	Models  int `json:"models"`
	Tools   int `json:"tools"`
	Failed  int `json:"failed"`
	Refused int `json:"refused"`
	// Credited counts the tool calls that a model asked for (see credit).
	Credited   int   `json:"credited"`
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	// LongCompletion is the most that one model call completed, in tokens.
	LongCompletion int64       `json:"long_completion"`
	Cost           agon.Micros `json:"cost_micros"`
	Cut            int         `json:"cut,omitempty"` // calls beyond what is kept

	bytes int // of arguments kept
}

// Call is one call at the gateway, in the order in which they ended.
type Call struct {
	Kind       string   `json:"kind"`
	Name       string   `json:"name"` // model or tool
	Receipt    string   `json:"receipt"`
	Status     int      `json:"status"`
	Outcome    string   `json:"outcome"`
	Completion int64    `json:"completion_tokens,omitempty"`
	Asked      []Asked  `json:"asked,omitempty"` // of a model: the tool calls in its reply
	Args       string   `json:"arguments,omitempty"`
	IDs        []string `json:"ids,omitempty"` // product ids that came back, the first ones
	// Facts are prices, services and values of those products, as they came back.
	Facts  map[string][]string `json:"facts,omitempty"`
	Said   string              `json:"said,omitempty"`   // of a model: its own words
	Nonce  string              `json:"nonce,omitempty"`  // what became of the call's mark
	Credit string              `json:"credit,omitempty"` // of a tool: "nonce", "order", "part", or nothing
	By     string              `json:"by,omitempty"`     // receipt of the model call that asked for it
	MS     int64               `json:"ms"`
	Cost   agon.Micros         `json:"cost_micros"`
}

// Asked is a call that a model asked for.
type Asked struct {
	Name string `json:"name"`
	Args string `json:"arguments"`
}

// How a tool call was credited to a model.
const (
	// CreditNonce: the call brought the mark that the gateway minted for it.
	CreditNonce = trajectory.ByNonce
	// CreditOrder: it is the next one, by name and arguments, of what the last
	// reply asked for.
	CreditOrder = trajectory.ByOrder
	// CreditPart: it is a part of a call that is made of several at the gateway
	// (find_products_in_same_shop, check_product_match).
	CreditPart = trajectory.ByPart
)

// Ratio is the share of tool calls that a model asked for; ok is false where
// there was none to share.
func (e *Evidence) Ratio() (ratio float64, ok bool) {
	if e.Tools == 0 {
		return 0, false
	}
	return float64(e.Credited) / float64(e.Tools), true
}

// maxShown bounds the calls that Text lists.
const maxShown = 200

// Text tells the calls for people: each tool call with who asked for it, and
// what it cost. Arguments are the agent's: foreign text.
func (e *Evidence) Text() string {
	if len(e.Calls) == 0 {
		return ""
	}
	var b strings.Builder
	for _, c := range e.Calls[:min(len(e.Calls), maxShown)] {
		switch {
		case c.Kind == CallModel:
			fmt.Fprintf(&b, "model %s: %d tokens, asked for %d calls, %d µ$\n", plain.Short(c.Name, 60), c.Completion, len(c.Asked), c.Cost)
		case c.Credit != "":
			fmt.Fprintf(&b, "%s %s: credited to the model by %s, %d µ$\n", c.Name, plain.Short(c.Args, 200), c.Credit, c.Cost)
		default:
			fmt.Fprintf(&b, "%s %s: not credited, no model asked for it, %d µ$\n", c.Name, plain.Short(c.Args, 200), c.Cost)
		}
	}
	fmt.Fprintf(&b, "%d of %d tool calls credited, %d model calls", e.Credited, e.Tools, e.Models)
	return b.String()
}

// Gather makes evidence of the events of one problem's session.
func Gather(events []agon.Event) (*Evidence, error) {
	e := &Evidence{Calls: []Call{}}
	asked := trajectory.NewCreditor(credits())
	for _, ev := range events {
		switch ev.Type {
		case agon.EventModel:
			var m gateway.ModelCall
			if err := json.Unmarshal(ev.Data, &m); err != nil {
				return nil, fmt.Errorf("read the gateway's event %d: %w", ev.Seq, err)
			}
			e.model(&m, asked)
		case agon.EventTool:
			var t gateway.ToolCallEvent
			if err := json.Unmarshal(ev.Data, &t); err != nil {
				return nil, fmt.Errorf("read the gateway's event %d: %w", ev.Seq, err)
			}
			e.tool(&t, asked)
		case agon.EventRefused:
			e.Refused++
		}
	}
	return e, nil
}

func (e *Evidence) keep(c Call) {
	if len(e.Calls) == maxCalls {
		e.Cut++
		return
	}
	for _, a := range c.Asked {
		e.bytes += len(a.Name) + len(a.Args)
	}
	for id, list := range c.Facts {
		e.bytes += len(id)
		for _, x := range list {
			e.bytes += len(x)
		}
	}
	if e.bytes += len(c.Args) + len(c.Said); e.bytes > maxEvidence {
		c.Asked, c.Args, c.Facts, c.Said = nil, "", nil, ""
	}
	e.Calls = append(e.Calls, c)
}

func callOf(kind string, r agon.Receipt) Call {
	return Call{
		Kind: kind, Name: r.Model, Receipt: r.ID, Status: r.Status, Outcome: r.Outcome,
		MS: r.End.Sub(r.Start).Milliseconds(), Cost: r.Cost,
	}
}

func (e *Evidence) model(m *gateway.ModelCall, q *trajectory.Creditor) {
	c := callOf(CallModel, m.Receipt)
	c.Completion = m.Receipt.Completion
	e.Models++
	e.Cost += m.Receipt.Cost
	if c.Status != http.StatusOK {
		e.Failed++
	} else {
		e.Prompt += m.Receipt.Prompt
		e.Completion += c.Completion
		e.LongCompletion = max(e.LongCompletion, c.Completion)
	}
	var calls []trajectory.SaidCall
	if c.Status == http.StatusOK {
		calls = trajectory.Asked(m.Message)
		if m.Message != nil {
			c.Said = ownWords(clip(m.Message.Reasoning+"\n"+m.Message.Content, maxSaid), m.Request)
		}
	}
	q.Model(c.Receipt, calls)
	for _, t := range calls {
		c.Asked = append(c.Asked, Asked{clip(t.Name, 100), clip(t.Arguments, maxCallArgs)})
	}
	e.keep(c)
}

func (e *Evidence) tool(t *gateway.ToolCallEvent, q *trajectory.Creditor) {
	c := callOf(CallTool, t.Receipt)
	c.Args, c.Nonce = clip(string(t.Arguments), maxCallArgs), t.Nonce
	e.Tools++
	e.Cost += t.Receipt.Cost
	if c.Status != http.StatusOK {
		e.Failed++
	}
	c.IDs, c.Facts = products(t.Response.Text)
	by := q.Tool(trajectory.SaidCall{Name: c.Name, Arguments: string(t.Arguments)}, t.Receipt.Emitted)
	c.Credit, c.By = by.How, by.Receipt
	if c.Credit != "" {
		e.Credited++
	}
	e.keep(c)
}

func clip(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

// products lists the products of a search's answer, and what it says of each: its
// price, its services, and the values of its options and attributes.
func products(reply string) (ids []string, facts map[string][]string) {
	var list []struct {
		ID      string                       `json:"product_id"`
		Price   json.Number                  `json:"price"`
		Service []string                     `json:"service"`
		Options map[string]map[string]string `json:"sku_options"`
		Values  map[string][]string          `json:"attributes"`
	}
	if json.Unmarshal([]byte(reply), &list) != nil {
		return nil, nil
	}
	facts = map[string][]string{}
	for _, p := range list {
		if p.ID == "" || len(ids) == maxCallIDs {
			continue
		}
		id := clip(p.ID, 100)
		ids = append(ids, id)
		said := append([]string{p.Price.String()}, p.Service...)
		for _, k := range slices.Sorted(maps.Keys(p.Options)) {
			said = append(said, slices.Sorted(maps.Values(p.Options[k]))...)
		}
		for _, k := range slices.Sorted(maps.Keys(p.Values)) {
			said = append(said, p.Values[k]...)
		}
		for _, x := range said {
			if x != "" && len(x) <= maxFact && len(facts[id]) < maxFacts && !slices.Contains(facts[id], x) {
				facts[id] = append(facts[id], x)
			}
		}
	}
	return ids, facts
}

// credits are the rules by which tool calls are credited to a model, in
// evidence and in a corpus alike.
func credits() *trajectory.Rules {
	return &trajectory.Rules{
		Same: func(asked, sent trajectory.SaidCall) bool {
			return sameArgs(plainArgs(json.RawMessage(asked.Arguments)), plainArgs(json.RawMessage(sent.Arguments)))
		},
		Part: func(asked, sent trajectory.SaidCall) bool {
			return isPart(Asked{asked.Name, asked.Arguments}, sent.Name, plainArgs(json.RawMessage(sent.Arguments)))
		},
	}
}

// isPart reports whether a dispatch is one that a composite tool of the
// reference agent makes.
func isPart(a Asked, name string, args map[string]string) bool {
	whole := plainArgs(json.RawMessage(a.Args))
	switch {
	case a.Name == "check_product_match" && name == "view_product_information":
		return args["product_ids"] != "" && args["product_ids"] == whole["product_id"]
	case a.Name == "find_products_in_same_shop" && name == "find_product":
		var list []struct {
			Q string `json:"q"`
		}
		if json.Unmarshal([]byte(whole["product_queries"]), &list) != nil {
			return false
		}
		for _, x := range list {
			words := strings.Fields(x.Q)
			for _, q := range []string{x.Q, strings.Join(words[:min(2, len(words))], " "), strings.Join(words[:min(1, len(words))], " ")} {
				if q != "" && sameText(q, args["q"]) {
					return true
				}
			}
		}
	}
	return false
}

// plainArgs reads arguments as texts by name: what is null, empty, or the
// default of the reference agent is as if it were not there.
func plainArgs(raw json.RawMessage) map[string]string {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	out := map[string]string{}
	for k, v := range m {
		text := string(v)
		var s string
		if json.Unmarshal(v, &s) == nil {
			text = s
		}
		var f float64
		if json.Unmarshal(v, &f) == nil && !strings.HasPrefix(text, `"`) {
			text = strconv.FormatFloat(f, 'f', -1, 64)
		}
		text = strings.TrimSpace(text)
		if text == "" || text == "null" || text == "default" || k == "page" && text == "1" {
			continue
		}
		out[k] = text
	}
	return out
}

// sameText compares a model's words with those of a dispatch, which the
// reference agent quotes once more than needed.
func sameText(model, sent string) bool {
	if model == sent {
		return true
	}
	plain, err := url.QueryUnescape(sent)
	return err == nil && strings.TrimSpace(plain) == strings.TrimSpace(model)
}

func sameArgs(model, sent map[string]string) bool {
	if only, ok := model["input"]; ok && len(model) == 1 && len(sent) == 1 { // an action whose input is a text
		for _, v := range sent {
			return sameText(only, v)
		}
	}
	if model == nil || len(model) != len(sent) {
		return false
	}
	for k, v := range model {
		w, ok := sent[k]
		if !ok || !sameText(v, w) && !(k == "product_ids" && slices.Equal(ids(v), ids(w))) {
			return false
		}
	}
	return true
}

func ids(csv string) []string {
	var out []string
	for _, id := range strings.Split(strings.Trim(csv, "[]"), ",") {
		if id = strings.Trim(strings.TrimSpace(id), `"`); id != "" {
			out = append(out, id)
		}
	}
	return out
}
