package roles

import (
	"errors"
	"fmt"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/postgres/pgtest"
	"github.com/agon-arena/agon/kinds/kit"
)

// openTestFollower makes what answers at a follower, whose leader does not answer, and its rows.
func openTestFollower(t *testing.T, leader string) (*follower, *store.Store) {
	t.Helper()
	o := testOptions(t.TempDir())
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
	f, st := openTestFollower(t, "http://127.0.0.1:1")
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
