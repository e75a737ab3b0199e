package roles

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/blob/s3"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store/sqlite"
)

// stuckAfter bounds the wait for the last run: a lease of a minute that was lost, the sweep, and
// another play.
const stuckAfter = 5 * time.Minute

// rest waits until every run and every submission has ended.
func (g *grand) rest() {
	g.t.Helper()
	db := g.open("pgx", g.at)
	defer db.Close()
	count := func(query string) (n int64) {
		if err := db.QueryRowContext(g.t.Context(), query).Scan(&n); err != nil {
			g.t.Fatal(err)
		}
		return n
	}
	for last, at := int64(-1), time.Now(); ; time.Sleep(100 * time.Millisecond) { // rows have no sign of change
		open := count(`SELECT count(*) FROM runs WHERE state NOT IN ('scored', 'failed', 'cancelled')`)
		open += count(`SELECT count(*) FROM submissions WHERE state IN ('queued', 'playing')`)
		if open == 0 {
			return
		}
		if open != last {
			last, at = open, time.Now()
		}
		if time.Since(at) > stuckAfter {
			g.t.Errorf("%d runs and submissions have not ended, and nothing changes any more", open)
			return
		}
	}
}

func (g *grand) open(driver, at string) *sql.DB {
	g.t.Helper()
	db, err := sql.Open(driver, at)
	if err != nil {
		g.t.Fatal(err)
	}
	return db
}

// rowsOf calls each with the columns of every row.
func (g *grand) rowsOf(db *sql.DB, query string, into []any, each func()) {
	g.t.Helper()
	rows, err := db.QueryContext(context.Background(), query)
	if err != nil {
		g.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			g.t.Fatal(err)
		}
		each()
	}
	if err := rows.Err(); err != nil {
		g.t.Fatal(err)
	}
}

type attemptID struct {
	run string
	n   int
}

// heardOf is what the history says.
type heardOf struct {
	submitted map[string]bool
	leased    map[attemptID]act
	sealed    map[attemptID]agon.Micros // the closing statement was in the validator's hand
	answered  map[attemptID]act         // counted, late or lost
	refused   map[string]int            // by what was asked and the code
}

// heard reads the history, and checks what it alone says.
func (g *grand) heard() heardOf {
	h := heardOf{map[string]bool{}, map[attemptID]act{}, map[attemptID]agon.Micros{}, map[attemptID]act{}, map[string]int{}}
	counted, upgraded := map[string]string{}, g.old == g.new
	for _, a := range g.history {
		id := attemptID{a.Run, a.Attempt}
		switch a.What {
		case "upgraded":
			upgraded = upgraded || a.ID == strconv.Itoa(len(g.program)-1)
		case "submitted":
			h.submitted[a.ID] = true
		case "leased":
			if other, twice := h.leased[id]; twice && other.ID != a.ID {
				g.t.Errorf("attempt %v was leased twice, as %s and %s", id, other.ID, a.ID)
			}
			h.leased[id] = a
		case "sealed":
			h.sealed[id] = a.Cost
		case "counted", "late", "lost":
			if other := counted[a.Run]; a.What == "counted" && other != "" && other != a.ID {
				g.t.Errorf("run %s was counted twice, for leases %s and %s", a.Run, other, a.ID)
			}
			if a.What == "counted" {
				counted[a.Run] = a.ID
			}
			h.answered[id] = a
		case "unanswered":
			g.t.Errorf("a result of run %s was refused for good, or not answered in five minutes (lease %s)", a.Run, a.ID)
		case "refused":
			h.refused[a.ID+": "+a.Name]++
			if a.Name == "internal" && upgraded {
				g.t.Errorf("%s at %s was answered by an internal error", a.ID, a.At)
			}
		}
	}
	return h
}

// spent is what gateways' books say of an attempt.
type spent struct{ account, receipts agon.Micros }

// gatewayBooks reads and checks the books of both gateways, which have ended.
func (g *grand) gatewayBooks() map[attemptID]spent {
	out := map[attemptID]spent{}
	for k := range grandGateways {
		at := filepath.Join(g.dir, fmt.Sprint("gate-", k), "gateway", "gateway.db")
		st, err := sqlite.Open(g.t.Context(), at)
		if err != nil {
			g.t.Fatal(err)
		}
		bad, err := st.CheckBooks(g.t.Context())
		if err != nil || len(bad) > 0 {
			g.t.Errorf("books of gateway %d: %v %v", k, bad[:min(len(bad), 5)], err)
		}
		if err := st.Close(); err != nil {
			g.t.Error(err)
		}
		db := g.open("sqlite", at)
		var id attemptID
		var micros int64
		g.rowsOf(db, `SELECT run, attempt, spent_micros FROM gateway_accounts`, []any{&id.run, &id.n, &micros}, func() {
			s := out[id]
			s.account += agon.Micros(micros)
			out[id] = s
		})
		g.rowsOf(db, `SELECT run, attempt, json_extract(body, '$.cost_micros') FROM gateway_receipts`, []any{&id.run, &id.n, &micros}, func() {
			s := out[id]
			s.receipts += agon.Micros(micros)
			out[id] = s
		})
		_ = db.Close()
	}
	return out
}

// bookedAttempt is a row of attempts.
type bookedAttempt struct {
	lease, submission, validator, state, fault, statement, evidence, hash string
	counted, late                                                         bool
	cost                                                                  agon.Micros
}

// check holds the history against the rows, the gateways' books and the bucket.
func (g *grand) check() {
	t := g.t
	t.Helper()
	h, books := g.heard(), g.gatewayBooks()
	db := g.open("pgx", g.at)
	defer db.Close()
	attempts, perRun := map[attemptID]bookedAttempt{}, map[string]int{}
	var id attemptID
	var a bookedAttempt
	var counted, late, cost int64
	g.rowsOf(db, `SELECT run, n, lease, submission, validator, state, fault, statement, evidence, result_hash, counted, late, cost_micros FROM attempts`,
		[]any{&id.run, &id.n, &a.lease, &a.submission, &a.validator, &a.state, &a.fault, &a.statement, &a.evidence, &a.hash, &counted, &late, &cost}, func() {
			a.counted, a.late, a.cost = counted == 1, late == 1, agon.Micros(cost)
			attempts[id] = a
			if a.counted {
				perRun[id.run]++
			}
		})
	receipts := map[attemptID]agon.Micros{}
	g.rowsOf(db, `SELECT run, attempt, (body::jsonb->>'cost_micros')::bigint FROM receipts`, []any{&id.run, &id.n, &cost}, func() { receipts[id] += agon.Micros(cost) })

	for id, told := range h.leased {
		if attempts[id].lease != told.ID {
			t.Errorf("lease %s of attempt %v was given out, the rows say %q", told.ID, id, attempts[id].lease)
		}
	}
	for id, told := range h.answered {
		if b := attempts[id]; b.counted != (told.What == "counted") || b.late != (told.What == "late") || b.cost != told.Cost || b.evidence != string(told.Evidence) {
			t.Errorf("attempt %v was answered %+v, the rows say %+v", id, told, b)
		}
	}
	states, ended := map[string]int{}, map[string]int{}
	var run, sub, state string
	g.rowsOf(db, `SELECT id, submission, state FROM runs`, []any{&run, &sub, &state}, func() {
		states[state]++
		if n := perRun[run]; n > 1 || (n == 1) != (state == "scored") {
			t.Errorf("run %s is %s with %d results that count", run, state, n)
		}
	})
	counts := map[string]agon.Micros{} // by submission
	for _, b := range attempts {
		if b.counted {
			counts[b.submission] += b.cost
		}
	}
	var entries agon.Micros
	g.rowsOf(db, `SELECT id, state, cost_micros FROM submissions`, []any{&sub, &state, &cost}, func() {
		ended[state]++
		entries += agon.Micros(cost)
		delete(h.submitted, sub)
		if counts[sub] != agon.Micros(cost) {
			t.Errorf("submission %s cost %d, its results that count %d", sub, cost, counts[sub])
		}
	})
	for sub := range h.submitted {
		t.Errorf("submission %s was acknowledged and is gone", sub)
	}
	g.money(h, books, attempts, receipts, entries)
	g.bytesOf(attempts)
	g.ready()
	t.Logf("runs %v, submissions %v, %d attempts, %d leases heard, %d results answered", states, ended, len(attempts), len(h.leased), len(h.answered))
	for _, what := range slices.Sorted(maps.Keys(h.refused)) {
		t.Logf("refused %5d × %.120s", h.refused[what], what)
	}
}

// money follows each micro-dollar from the gateways' books to the submissions. Every attempt's
// books, receipts and statement say the same; what no result has brought to the platform was
// spent in attempts that were lost, and is named.
func (g *grand) money(h heardOf, books map[attemptID]spent, attempts map[attemptID]bookedAttempt, receipts map[attemptID]agon.Micros, entries agon.Micros) {
	t := g.t
	t.Helper()
	sum := map[string]agon.Micros{}
	for id, s := range books {
		b, known := attempts[id]
		if !known {
			t.Errorf("a gateway has books of attempt %v, which was never leased", id)
		}
		if s.account != s.receipts {
			t.Errorf("attempt %v: the account says %d, its receipts %d", id, s.account, s.receipts)
		}
		if told, ok := h.sealed[id]; ok && told != s.account {
			t.Errorf("attempt %v: its statement says %d, the books %d", id, told, s.account)
		}
		sum["spent at gateways"] += s.account
		switch {
		case b.counted:
			sum["counted"] += s.account
		case b.late:
			sum["late"] += s.account
		case b.fault != "" && b.hash != "":
			sum["given back"] += s.account
		default:
			sum["lost with its validator"] += s.account
		}
	}
	for id, b := range attempts {
		if b.statement == "" {
			if b.counted {
				t.Errorf("attempt %v counts without a statement", id)
			}
			continue
		}
		var s agon.Statement
		if err := json.Unmarshal([]byte(b.statement), &s); err != nil {
			t.Error(err)
		}
		if s.Cost != b.cost || s.Cost != receipts[id] || s.Cost != books[id].account {
			t.Errorf("attempt %v: statement %d, row %d, receipts %d, books %d", id, s.Cost, b.cost, receipts[id], books[id].account)
		}
		if b.counted {
			sum["statements that count"] += s.Cost
		}
	}
	if sum["statements that count"] != sum["counted"] || entries != sum["counted"] {
		t.Errorf("statements %d, submissions %d, books of what counts %d", sum["statements that count"], entries, sum["counted"])
	}
	if all := sum["counted"] + sum["late"] + sum["given back"] + sum["lost with its validator"]; all != sum["spent at gateways"] {
		t.Errorf("parts sum to %d, the gateways spent %d", all, sum["spent at gateways"])
	}
	for _, what := range slices.Sorted(maps.Keys(sum)) {
		t.Logf("%12d micro-dollars %s", sum[what], what)
	}
}

// mostRead bounds how many trees of evidence are read back.
const mostRead = 5000

// bytesOf reads evidence back from the bucket.
func (g *grand) bytesOf(attempts map[attemptID]bookedAttempt) {
	blobs, err := s3.Open(g.t.Context(), g.blobs, s3.Options{Getenv: os.Getenv, Now: time.Now})
	if err != nil {
		g.t.Fatal(err)
	}
	n, every := 0, len(attempts)/mostRead+1
	for i, id := range slices.SortedFunc(maps.Keys(attempts), func(a, b attemptID) int { return strings.Compare(a.run, b.run) }) {
		b := attempts[id]
		if !b.counted || i%every > 0 {
			continue
		}
		n++
		m, err := blob.GetManifest(g.t.Context(), blobs, agon.Digest(b.evidence), blob.TreeLimits{})
		if err != nil {
			g.t.Errorf("evidence of %v: %v", id, err)
			continue
		}
		if _, err := blobs.Get(g.t.Context(), m.Files[0].Digest); err != nil {
			g.t.Errorf("evidence of %v: %v", id, err)
		}
	}
	g.t.Logf("%d trees of evidence read back", n)
}

// ready checks what servers said of themselves: one that is not ready says why.
func (g *grand) ready() {
	n, why := 0, map[string]int{}
	for _, a := range g.history {
		if a.What != "not ready" {
			continue
		}
		n++
		var p client.Problem
		if a.Status != 0 && (json.Unmarshal([]byte(a.Name), &p) != nil || p.Code == "" || p.Detail == "") {
			g.t.Errorf("%s said %d %.200q", a.Who, a.Status, a.Name)
		}
		why[fmt.Sprintf("%d %s %s", a.Status, p.Code, p.Detail)]++
	}
	g.t.Logf("a server ceased to be ready %d times: %v", n, why)
}
