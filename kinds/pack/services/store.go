// Package services are the stateful office of TrajectoryRL's first season: mail,
// chat, tasks, calendar and code host behind one HTTP server, and mail over SMTP.
// What is written stays until Reset, which brings back what Load put in. Paths,
// shapes and order of rows are those of trajectory-sandbox's mock_services (7dc111d);
// ids are drawn from a seed, and the clock is the caller's, so the same calls leave
// the same bytes.
package services

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// Limits of one office. Beyond them a write is refused with status 507.
const (
	maxRows = 5_000
	maxKept = 4 << 20 // bytes of all rows
	maxBody = 1 << 20 // of a request or a mail
)

// tables are the parts of the state, in the order of State, and the key of the
// fixtures that fills each; "" begins empty.
var tables = []struct{ name, fixture string }{
	{"emails", "inbox"},
	{"sent_emails", ""},
	{"slack_channels", "slack_channels"},
	{"tasks", "tasks"},
	{"calendar_events", "calendar"},
	{"gitea_issues", "gitea_issues"},
	{"gitea_prs", "gitea_prs"},
	{"gitea_comments", ""},
	{"gitea_refs", "gitea_refs"},
	{"gitea_files", "gitea_files"},
	{"gitea_commits", "gitea_commits"},
	{"action_log", ""},
}

// Config is what an office is made of.
type Config struct {
	Seed uint64           // ids are drawn from it
	Now  func() time.Time // of what is written; nil: time.Now
}

// Server is one office. Safe for concurrent use.
type Server struct {
	cfg Config

	mu     sync.Mutex // guards all below
	now    map[string]rows
	loaded map[string]rows // what Reset brings back
	ids    *rand.Rand
	kept   int // bytes
	count  int // rows
}

// rows are a table: values by key, the one written last at the end. Values are
// never changed in place, so that a copy of keys and map is a copy of the table.
type rows struct {
	keys []string
	by   map[string]packfile.Value
}

func (r rows) clone() rows {
	by := make(map[string]packfile.Value, len(r.by))
	for k, v := range r.by {
		by[k] = v
	}
	return rows{slices.Clone(r.keys), by}
}

func (r rows) list() packfile.Value {
	out := packfile.Value{Kind: packfile.List}
	for _, k := range r.keys {
		out.List = append(out.List, r.by[k])
	}
	return out
}

func (r rows) object() packfile.Value {
	out := packfile.Obj()
	for _, k := range r.keys {
		out.Keys = append(out.Keys, k)
		out.Fields[k] = r.by[k]
	}
	return out
}

// New returns an empty office.
func New(c Config) *Server {
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &Server{cfg: c}
	s.fill(nil)
	return s
}

// fill begins anew with the given tables.
func (s *Server) fill(of map[string]rows) {
	s.loaded = of
	s.now = map[string]rows{}
	s.kept, s.count = 0, 0
	for _, t := range tables {
		r := of[t.name].clone()
		s.now[t.name] = r
		for _, v := range r.by {
			s.kept += len(v.Compact())
			s.count++
		}
	}
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], s.cfg.Seed)
	s.ids = rand.New(rand.NewChaCha8(seed))
}

// id draws a version-4 UUID.
func (s *Server) id() string {
	var u uuid.UUID
	binary.LittleEndian.PutUint64(u[:8], s.ids.Uint64())
	binary.LittleEndian.PutUint64(u[8:], s.ids.Uint64())
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return u.String()
}

func (s *Server) stamp() packfile.Value {
	return packfile.Of(s.cfg.Now().UTC().Format("2006-01-02T15:04:05.000000"))
}

// Load replaces everything by fixtures: {inbox, slack_channels, tasks, calendar,
// gitea_…}, each a list of objects, or an object of them by id. On an error
// nothing has changed.
func (s *Server) Load(fixtures packfile.Value) error {
	if fixtures.Kind != packfile.Object {
		return fmt.Errorf("fixtures: want an object")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, count := 0, 0
	of := map[string]rows{}
	for _, t := range tables {
		data := fixtures.Get(t.fixture)
		if t.fixture == "" || data.Kind == packfile.Absent || data.Kind == packfile.Null {
			continue
		}
		r := rows{by: map[string]packfile.Value{}}
		put := func(key string, v packfile.Value) {
			r = r.put(key, v)
			kept += len(v.Compact())
			count++
		}
		switch data.Kind {
		case packfile.Object:
			for _, k := range data.Keys {
				if data.Fields[k].Kind != packfile.Object {
					return fmt.Errorf("fixtures: %s: %q is not an object", t.fixture, k)
				}
				put(k, data.Fields[k])
			}
		case packfile.List:
			for i, v := range data.List {
				if v.Kind != packfile.Object {
					return fmt.Errorf("fixtures: %s: entry %d is not an object", t.fixture, i)
				}
				key := v.Get("id")
				if !key.Truth() {
					key = v.Get("number")
				}
				if !key.Truth() {
					key = packfile.Of(fmt.Sprintf("%s-%d", t.fixture, i))
				}
				put(key.Text(), v)
			}
		default:
			return fmt.Errorf("fixtures: %s: want a list or an object", t.fixture)
		}
		if kept > maxKept || count > maxRows {
			return fmt.Errorf("fixtures: more than %d rows or %d bytes", maxRows, maxKept)
		}
		of[t.name] = r
	}
	s.fill(of)
	return nil
}

// Reset brings back what Load put in.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fill(s.loaded)
}

// State is everything: a list per table, slack_channels by id.
func (s *Server) State() packfile.Value {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := packfile.Obj()
	for _, t := range tables {
		v := s.now[t.name].list()
		if t.name == "slack_channels" {
			v = s.now[t.name].object()
		}
		out.Keys = append(out.Keys, t.name)
		out.Fields[t.name] = v
	}
	return out
}

// put writes a row; one that was there moves to the end.
func (r rows) put(key string, v packfile.Value) rows {
	if _, ok := r.by[key]; ok {
		r.keys = slices.DeleteFunc(r.keys, func(k string) bool { return k == key })
	}
	r.by[key] = v
	r.keys = append(r.keys, key)
	return r
}

// write is put within the office's limits. s.mu is held.
func (s *Server) write(table, key string, v packfile.Value) bool {
	old, had := s.now[table].by[key]
	kept, count := s.kept+len(v.Compact()), s.count
	if had {
		kept -= len(old.Compact())
	} else {
		count++
	}
	if kept > maxKept || count > maxRows {
		return false
	}
	s.kept, s.count = kept, count
	s.now[table] = s.now[table].put(key, v)
	return true
}

// remove deletes a row, and says whether there was one. s.mu is held.
func (s *Server) remove(table, key string) bool {
	r := s.now[table]
	old, ok := r.by[key]
	if !ok {
		return false
	}
	s.kept, s.count = s.kept-len(old.Compact()), s.count-1
	delete(r.by, key)
	r.keys = slices.DeleteFunc(r.keys, func(k string) bool { return k == key })
	s.now[table] = r
	return true
}

// log notes an act. s.mu is held.
func (s *Server) log(service, action string, data packfile.Value) bool {
	id := s.id()
	return s.write("action_log", id, packfile.Obj("id", id, "service", service, "action", action, "data", data, "timestamp", s.stamp()))
}
