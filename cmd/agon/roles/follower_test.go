package roles

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/certs"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/postgres/pgtest"
	"github.com/agon-arena/agon/kinds/kit"
)

// openTestFollower makes what answers at a follower, and opens its rows.
func openTestFollower(t *testing.T, leader string, now func() time.Time, over *certs.Client) (*follower, *store.Store) {
	t.Helper()
	o := testOptions(t.TempDir())
	o.Now, o.Over = now, over
	o.Store = pgtest.Start(t).Database(t)
	st, err := openStore(t.Context(), nil, o, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	d, err := kit.OpenData(o.Data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	at := seat{store: st}
	at.cluster, _ = st.Cluster()
	f, err := newFollower(t.Context(), o, at, d, "http://127.0.0.1:2", leader)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	return f, st
}

// Who missed a kind's own canaries plays for no server: what the leader knows of him a follower knows too.
func TestFollowerRefusesOutcasts(t *testing.T) {
	f, st := openTestFollower(t, "http://127.0.0.1:1", nil, nil)
	const liar, stranger = "5DXAcHkhU6zjGUx2JFQFyyYnjDVtZoZutJ9uNmyCEZZKYxhw", "5H19J9jjGjXsWU55ni4eGSeRn2A9bD3HpUL9QUEgYH2EuLvQ"
	err := st.Write(t.Context(), func(tx *store.Tx) error {
		for i := range 30 {
			if err := tx.InsertDoc("research_hits", store.Doc{ID: fmt.Sprint("hit-", i), Owner: liar, Body: []byte(`{"within_tolerance": false}`)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	claim := func(hotkey string) error {
		_, err := f.platform.Claim(t.Context(), platform.Caller{Hotkey: hotkey}, client.ClaimRequest{Kinds: []string{"research"}})
		return err
	}
	if err := claim(stranger); err != nil {
		t.Errorf("a validator of whom nothing is known: %v", err)
	}
	var e *agon.Error
	if err := claim(liar); !errors.As(err, &e) || e.Code != "low_standing" {
		t.Errorf("a validator that missed 30 of 30 canaries: %v", err)
	}
}

// A server whose clock is not the leader's gives no leases, which the leader would end at
// once or never: it passes claims on until its clock is right.
func TestFollowerWithAnotherClock(t *testing.T) {
	var passed atomic.Int64
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(headerPassed) != "" {
			passed.Add(1)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer leader.Close()
	var by atomic.Int64
	f, _ := openTestFollower(t, leader.URL, func() time.Time { return time.Now().Add(time.Duration(by.Load())) }, nil)
	claim := func() int64 {
		before := passed.Load()
		f.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/leases", strings.NewReader("{}")))
		return passed.Load() - before
	}
	for _, c := range []struct {
		by   time.Duration
		want int64
	}{{0, 0}, {time.Minute, 1}, {8 * time.Second, 0}, {-time.Minute, 1}, {-8 * time.Second, 0}} {
		by.Store(int64(c.by))
		f.compareClocks(t.Context())
		if got := claim(); got != c.want {
			t.Errorf("a clock that is %s from the leader's: %d claims were passed on, want %d", c.by, got, c.want)
		}
	}
	by.Store(int64(time.Minute))
	f.compareClocks(t.Context())
	leader.Close() // who does not answer says nothing of clocks
	by.Store(0)
	f.compareClocks(t.Context())
	if !f.apart.Load() {
		t.Error("the clocks are taken for the same though nobody compared them")
	}
}

// A client hears only that the leader does not answer. The log of the server that it asked says why,
// once for each leader.
func TestFollowerSaysWhyTheLeaderIsAway(t *testing.T) {
	var log bytes.Buffer
	f := &follower{leader: &leaderAt{base: &http.Transport{}}, log: slog.New(slog.NewTextHandler(&log, nil)), now: time.Now}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	stranger := httptest.NewUnstartedServer(http.NotFoundHandler())
	stranger.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	stranger.StartTLS()
	defer stranger.Close()
	back := httptest.NewServer(http.NotFoundHandler())
	defer back.Close()
	for _, at := range []string{gone.URL, stranger.URL, back.URL} {
		f.leader.set(at)
		for range 2 {
			f.compareClocks(t.Context())
		}
	}
	f.leader.idle()
	said := log.String()
	if strings.Count(said, "not reached from here") != 2 || strings.Count(said, "reached again") != 1 || !strings.Contains(said, "connection refused") || !strings.Contains(said, "unknown authority") {
		t.Errorf("the log says\n%s", said)
	}
}
