package trajectory

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
)

// reader reads the model calls of one attempt. An agent sends its whole
// conversation with every call, so nearly all of a request is what the one
// before it said: that part is compared, not read again. Requests whose form
// the reader does not know are read by encoding/json.
type reader struct {
	raw   []byte    // text of the last request, escaped, as it stood in its event
	marks []mark    // where raw and body stand beside each other
	body  []byte    // raw without its escapes
	plain bool      // body was understood
	msgs  []message // of body
	ends  []int     // where each message of body ends
	early []byte    // tools that stood before the messages
	tools []byte    // of the last call
	list  []json.RawMessage
	valid []byte // the last value that was checked
}

// mark says that raw[:at] is body[:out] without its escapes.
type mark struct{ at, out int }

// markEvery is the distance of marks, in bytes of raw.
const markEvery = 512

// turn is turnOf for the data of an event, as far as a conversation needs it:
// the receipt has id, model, provider, payer and cost. ok is false for data
// that is not a model call.
func (r *reader) turn(data []byte) (t turn, chat, ok bool) {
	var receipt, request, message, counted []byte
	good := fieldsOf(data, func(key, value []byte) bool {
		var field *[]byte
		switch string(key) {
		case "receipt":
			field = &receipt
		case "request":
			field = &request
		case "message":
			field = &message
		case "tokens":
			field = &counted
		case "response", "stream", "error", "over_micros", "claimed_run_id":
			return true
		}
		if field == nil || *field != nil {
			return false // unknown, or twice
		}
		*field = value
		return true
	}, func(key string, b []byte) int {
		if key == "request" {
			return r.skipRequest(b)
		}
		return skip(b)
	})
	var text []byte
	if good && len(request) > 0 && request[0] == '{' {
		good = fieldsOf(request, func(key, value []byte) bool {
			switch string(key) {
			case "text":
				if text != nil {
					return false
				}
				text = value
			case "bytes", "blob":
			default:
				return false // cut, or no text: rare
			}
			return true
		}, func(key string, b []byte) int {
			if key == "text" {
				return r.skipText(b)
			}
			return skip(b)
		})
	}
	if !good || len(text) < 2 || text[0] != '"' {
		return slowTurn(data)
	}
	var m struct { // what a conversation needs of a call
		ID       string      `json:"id"`
		Model    string      `json:"model"`
		Provider string      `json:"provider"`
		Payer    string      `json:"payer"`
		Cost     agon.Micros `json:"cost_micros"`
	}
	if receipt != nil && json.Unmarshal(receipt, &m) != nil {
		return slowTurn(data)
	}
	var said *gateway.Message
	if message != nil && json.Unmarshal(message, &said) != nil {
		return slowTurn(data)
	}
	if said == nil || (m.Payer != "" && m.Payer != "run") {
		return turn{}, false, true
	}
	if !r.read(text[1 : len(text)-1]) {
		return slowTurn(data)
	}
	var tokens *gateway.Tokens
	if counted != nil && json.Unmarshal(counted, &tokens) != nil {
		return slowTurn(data)
	}
	reply := callsOf(*said)
	reply.plain, reply.settled = said.Content, true
	return turn{
		receipt: agon.Receipt{ID: m.ID, Model: m.Model, Provider: m.Provider, Payer: m.Payer, Cost: m.Cost}, finish: said.Finish,
		reply: reply, messages: slices.Clip(r.msgs), tools: r.tools, tokens: tokens,
	}, true, true
}

func slowTurn(data []byte) (t turn, chat, ok bool) {
	var m gateway.ModelCall
	if json.Unmarshal(data, &m) != nil {
		return turn{}, false, false
	}
	t, chat = turnOf(m)
	for i := range t.messages {
		t.messages[i].settle()
	}
	return t, chat, true
}

// skipRequest returns the length of a request's object, looking at its text only where it is new.
func (r *reader) skipRequest(b []byte) int {
	i := blank(b, 0)
	if i >= len(b) || b[i] != '{' {
		return skip(b)
	}
	n, ok := members(b[i:], nil, func(key string, b []byte) int {
		if key == "text" {
			return r.skipText(b)
		}
		return skip(b)
	})
	if !ok {
		return -1
	}
	return i + n
}

// skipText returns the length of a string that likely begins as the last request did.
func (r *reader) skipText(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return skip(b)
	}
	// A mark never stands within an escape, so that the string goes on from one.
	m := r.shared(b[1:])
	n := stringEnd(b, 1+m.at)
	if n < 0 {
		return -1
	}
	return n
}

// shared is the last mark up to which raw and the text in b are the same.
func (r *reader) shared(b []byte) mark {
	n := prefix(r.raw, b)
	i, _ := slices.BinarySearchFunc(r.marks, n, func(m mark, n int) int { return m.at - n })
	if i < len(r.marks) && r.marks[i].at == n {
		return r.marks[i]
	}
	if i == 0 {
		return mark{}
	}
	return r.marks[i-1]
}

// prefix is how many bytes a and b begin with in common.
func prefix(a, b []byte) int {
	n := min(len(a), len(b))
	const step = 256
	i := 0
	for i+step <= n && bytes.Equal(a[i:i+step], b[i:i+step]) {
		i += step
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// read takes the escaped text of a request in, and reports whether it was understood.
func (r *reader) read(raw []byte) bool {
	m := r.shared(raw)
	i, _ := slices.BinarySearchFunc(r.marks, m.at, func(x mark, at int) int { return x.at - at })
	if i < len(r.marks) && r.marks[i].at == m.at {
		i++
	}
	r.marks = r.marks[:i]
	body, marks, ok := unescape(r.body[:m.out], r.marks, raw, m.at)
	same := m.out
	if !r.plain {
		same = 0
	}
	r.raw, r.body, r.marks, r.plain = raw, body, marks, false
	if !ok {
		r.raw, r.marks = nil, nil
		return false
	}
	r.plain = r.understand(same)
	return r.plain
}

// unescape appends the string that begins at raw[from:] to out. Escapes other
// than the common ones are left to encoding/json: ok is false.
func unescape(out []byte, marks []mark, raw []byte, from int) ([]byte, []mark, bool) {
	next := from + markEvery
	for i := from; i < len(raw); {
		if i >= next {
			marks = append(marks, mark{i, len(out)})
			next = i + markEvery
		}
		j := bytes.IndexByte(raw[i:min(len(raw), next)], '\\')
		if j < 0 {
			j = min(len(raw), next)
			out = append(out, raw[i:j]...)
			i = j
			continue
		}
		out = append(out, raw[i:i+j]...)
		i += j
		if i+1 >= len(raw) {
			return nil, nil, false
		}
		switch c := raw[i+1]; c {
		case '"', '\\', '/':
			out = append(out, c)
		case 'n':
			out = append(out, '\n')
		case 't':
			out = append(out, '\t')
		case 'r':
			out = append(out, '\r')
		case 'u':
			if i+6 > len(raw) {
				return nil, nil, false
			}
			var s string
			k := i + 6
			high := (raw[i+2] == 'd' || raw[i+2] == 'D') && bytes.IndexByte([]byte("89abAB"), raw[i+3]) >= 0
			if high && k+6 <= len(raw) && raw[k] == '\\' && raw[k+1] == 'u' {
				k += 6 // the other half of a pair
			}
			if json.Unmarshal(slices.Concat([]byte{'"'}, raw[i:k], []byte{'"'}), &s) != nil {
				return nil, nil, false
			}
			out = append(out, s...)
			i = k
			continue
		default:
			return nil, nil, false
		}
		i += 2
	}
	return out, marks, true
}

// understand reads body, of which the first same bytes are those of the last one.
func (r *reader) understand(same int) bool {
	n := 0
	for n < len(r.ends) && r.ends[n] <= same {
		n++
	}
	if n == 0 {
		r.msgs, r.ends, r.early = nil, nil, nil
		return r.whole()
	}
	r.msgs, r.ends = r.msgs[:n:n], r.ends[:n:n]
	at, ok := r.messages(r.ends[n-1], false)
	return ok && r.rest(at, r.early, true)
}

// whole reads a body from its beginning.
func (r *reader) whole() bool {
	i := blank(r.body, 0)
	if i >= len(r.body) || r.body[i] != '{' {
		return false
	}
	return r.rest(i+1, nil, false)
}

// rest reads the members of the body from at on.
func (r *reader) rest(at int, tools []byte, seen bool) bool {
	first := !seen
	b := r.body
	for {
		at = blank(b, at)
		if at >= len(b) {
			return false
		}
		if b[at] == '}' {
			r.tools = slices.Clone(tools)
			return seen && len(r.msgs) > 0 && blank(b, at+1) == len(b)
		}
		if !first {
			if b[at] != ',' {
				return false
			}
			at = blank(b, at+1)
		}
		first = false
		key, next, ok := keyAt(b, at)
		if !ok {
			return false
		}
		at = next
		switch {
		case string(key) == "messages":
			if seen || at >= len(b) || b[at] != '[' {
				return false
			}
			seen, r.early = true, slices.Clone(tools)
			if at, ok = r.messages(at+1, true); !ok {
				return false
			}
			continue
		case string(key) == "tools" && tools != nil, string(key) != "tools" && odd(key):
			return false
		}
		n := skip(b[at:])
		if n < 0 || !r.isValid(b[at:at+n]) {
			return false
		}
		if string(key) == "tools" {
			tools = b[at : at+n]
		}
		at += n
	}
}

// odd reports a key that encoding/json could take for one of ours.
func odd(key []byte) bool {
	return bytes.EqualFold(key, []byte("messages")) || bytes.EqualFold(key, []byte("tools")) || bytes.IndexByte(key, '\\') >= 0
}

// isValid is json.Valid; the same value comes with every call.
func (r *reader) isValid(b []byte) bool {
	if len(b) > 32 && bytes.Equal(b, r.valid) {
		return true
	}
	if !json.Valid(b) {
		return false
	}
	if len(b) > 32 {
		r.valid = slices.Clone(b)
	}
	return true
}

// messages reads elements of the array of messages up to its end.
func (r *reader) messages(at int, first bool) (int, bool) {
	b := r.body
	for {
		at = blank(b, at)
		if at >= len(b) {
			return 0, false
		}
		if b[at] == ']' {
			return at + 1, true
		}
		if !first {
			if b[at] != ',' {
				return 0, false
			}
			at = blank(b, at+1)
		}
		first = false
		n := skip(b[at:])
		if n <= 0 || b[at] != '{' {
			return 0, false
		}
		var m message
		if json.Unmarshal(b[at:at+n], &m) != nil {
			return 0, false
		}
		m.settle()
		at += n
		r.msgs, r.ends = append(r.msgs, m), append(r.ends, at)
	}
}

// offered are the tools of a turn as a list.
func (r *reader) offered(tools json.RawMessage, last []byte) []json.RawMessage {
	if r.list == nil || !bytes.Equal(tools, last) {
		r.list = nil
		_ = json.Unmarshal(tools, &r.list) // tools that are not a list are none
	}
	return r.list
}

// fieldsOf calls each with every member of the object that b is; skipper returns
// the length of a member's value. It is false for what is not an object, or where each says so.
func fieldsOf(b []byte, each func(key, value []byte) bool, skipper func(key string, b []byte) int) bool {
	i := blank(b, 0)
	if i >= len(b) || b[i] != '{' {
		return false
	}
	n, ok := members(b[i:], each, skipper)
	return ok && blank(b, i+n) == len(b)
}

func members(b []byte, each func(key, value []byte) bool, skipper func(key string, b []byte) int) (int, bool) {
	i := blank(b, 1)
	for first := true; ; first = false {
		i = blank(b, i)
		if i >= len(b) {
			return 0, false
		}
		if b[i] == '}' {
			return i + 1, true
		}
		if !first {
			if b[i] != ',' {
				return 0, false
			}
			i = blank(b, i+1)
		}
		key, at, ok := keyAt(b, i)
		if !ok {
			return 0, false
		}
		n := skipper(string(key), b[at:])
		if n <= 0 || at+n > len(b) || (each != nil && !each(key, b[at:at+n])) {
			return 0, false
		}
		i = at + n
	}
}

// keyAt reads a key and its colon; the value begins at next.
func keyAt(b []byte, at int) (key []byte, next int, ok bool) {
	if at >= len(b) || b[at] != '"' {
		return nil, 0, false
	}
	end := stringEnd(b, at+1)
	if end < 0 {
		return nil, 0, false
	}
	i := blank(b, end)
	if i >= len(b) || b[i] != ':' {
		return nil, 0, false
	}
	return b[at+1 : end-1], blank(b, i+1), true
}

func blank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// stringEnd is the index after the quote that ends the string whose inside i stands in; -1 without one.
func stringEnd(b []byte, i int) int {
	for i < len(b) {
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i += 2
		default:
			i++
		}
	}
	return -1
}

// skip is the length of the value that b begins with; -1 where there is none. It
// finds ends; it does not check what is between.
func skip(b []byte) int {
	depth := 0
	for i := 0; i < len(b); {
		switch c := b[i]; c {
		case '"':
			if i = stringEnd(b, i+1); i < 0 {
				return -1
			}
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			if depth < 0 {
				return i
			}
			i++
		case ',':
			if depth == 0 {
				return i
			}
			i++
		default:
			i++
		}
		if depth == 0 && i > 0 && (b[i-1] == '}' || b[i-1] == ']' || b[i-1] == '"') {
			return i
		}
	}
	if depth == 0 && len(b) > 0 {
		return len(b)
	}
	return -1
}
