package roles

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/kinds/kit"
)

// Several `agon serve` may share one database and one data directory
// (docs/servers.md). One leads: who holds the lock of the data directory and
// the advisory lock of the database. The others follow, and take over.

// tryEvery is how often a follower tries to lead: what a take-over waits for.
const tryEvery = 150 * time.Millisecond

// seat is what a server process has before it knows its role. The zero value is
// that of a server that is alone: it opens everything itself.
type seat struct {
	data    *kit.Data
	store   *store.Store
	cluster store.Cluster
	front   *front
	lost    <-chan struct{} // closed when the lead is lost; nil: it cannot be
}

// close gives back what was opened.
func (at seat) close() error {
	var err error
	if at.store != nil {
		err = at.store.Close()
	}
	if at.data != nil {
		err = errors.Join(err, at.data.Close())
	}
	return err
}

// serveShared serves with the database of o until ctx ends, as the leader or as
// one of those who follow.
func serveShared(ctx context.Context, o kit.Options) error {
	f, err := openFront(o)
	if err != nil {
		return err
	}
	defer f.drain()
	m := &member{o: o, front: f}
	if m.address, err = advertised(o, f.scheme, f.addr); err != nil {
		return err
	}
	defer roomy(o.Getenv)()
	for {
		again, err := m.term(ctx)
		if err != nil && ctx.Err() == nil && !again {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // the database or the leader was away: it is tried again
			o.Log.WarnContext(ctx, "this server starts again", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(tryEvery):
			}
		}
	}
}

// advertised is the URL at which other servers reach this one.
func advertised(o kit.Options, scheme, addr string) (string, error) {
	if at := o.Getenv("AGON_ADVERTISE"); at != "" {
		u, err := url.Parse(at)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil {
			return "", &agon.Error{Code: "bad_setting", Status: 422, Field: "AGON_ADVERTISE", Message: fmt.Sprintf("%q is not the URL of a server", at), Mend: "write http://HOST:PORT or https://HOST:PORT, at which the other servers reach this one"}
		}
		return at, nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("own address: %w", err)
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if host, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("own address: %w", err)
		}
	}
	return scheme + "://" + net.JoinHostPort(host, port), nil
}

// member is one server process of several.
type member struct {
	o       kit.Options
	front   *front
	address string
	ready   sync.Once // Options.Ready is called once
}

func (m *member) isReady() {
	m.ready.Do(func() {
		if m.o.Ready != nil {
			m.o.Ready(m.front.scheme + "://" + m.front.addr)
		}
	})
}

// term follows until this server leads, then leads until it does not any more.
// again says that an error may pass.
func (m *member) term(ctx context.Context) (again bool, err error) {
	st, err := openStore(ctx, nil, m.o, false)
	if err != nil {
		return false, err
	}
	c, ok := st.Cluster()
	if !ok {
		return false, errors.Join(errors.New("the store knows no other servers"), st.Close())
	}
	at := seat{store: st, cluster: c, front: m.front}
	t, data, err := m.follow(ctx, at)
	if err != nil || t == nil {
		return !m.misplaced(err), errors.Join(err, st.Close())
	}
	at.data = data
	return m.lead(ctx, at, t)
}

// misplaced reports whether an error says that this server is set up wrongly.
func (m *member) misplaced(err error) bool {
	var e *agon.Error
	return errors.As(err, &e) && e.Status < 500
}

// tryLead takes both locks, or none.
func (m *member) tryLead(ctx context.Context, at seat) (*store.Term, *kit.Data, error) {
	d, err := kit.OpenData(m.o.Data)
	if err != nil {
		var e *agon.Error
		if errors.As(err, &e) && e.Code == "data_in_use" {
			return nil, nil, nil
		}
		return nil, nil, err
	}
	t, err := at.cluster.Lead(ctx, m.address, d.Audience)
	if err != nil || t == nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	return t, d, nil
}

// lead serves as the leader. It closes what at holds.
func (m *member) lead(ctx context.Context, at seat, t *store.Term) (again bool, err error) {
	began := time.Now()
	at.store.KeepArenas()
	at.lost = t.Lost
	s, err := openArenasAt(ctx, m.o, at)
	if err != nil {
		t.Resign()
		return errors.Is(err, store.ErrDeposed), err
	}
	m.front.show(s.gate)
	m.o.Log.InfoContext(ctx, "this server leads", "term", t.Leader.Term, "address", t.Address, "opened_in", time.Since(began).Round(time.Millisecond))
	m.o.Sayf("this server leads; the operator's key is wallet %q below %s", "operator", s.Data.Path("wallets"))
	m.isReady()
	defer t.Resign() // after the data directory's lock is free
	defer s.close()
	select {
	case <-ctx.Done():
		s.Platform.Drain()
		m.front.drain()
		return false, ctx.Err()
	case <-t.Lost:
		m.o.Log.WarnContext(ctx, "this server does not lead any more: its connection to the database broke", "term", t.Leader.Term)
		m.front.show(nil)
		return true, nil
	case err := <-m.front.done:
		return false, err
	}
}

// follow serves as a follower until this server leads (its term and the locked
// data directory), or ctx ends (nil).
func (m *member) follow(ctx context.Context, at seat) (*store.Term, *kit.Data, error) {
	tick := time.NewTicker(tryEvery)
	defer tick.Stop()
	var f *follower
	defer func() {
		if f != nil {
			m.front.show(nil)
			f.close()
		}
	}()
	for {
		t, d, err := m.tryLead(ctx, at)
		if t != nil && f != nil {
			f.leader.set(m.address) // what waits to be passed on has arrived
		}
		if t != nil || err != nil {
			return t, d, err
		}
		l, err := at.cluster.Leader(ctx)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case l.Term == 0 || l.Address == m.address: // one starts; or we were it, and another does
		case f == nil:
			if f, err = m.openFollower(ctx, at, l); err != nil {
				return nil, nil, err
			}
			if f != nil {
				m.o.Log.InfoContext(ctx, "this server follows", "leader", l.Address, "term", l.Term)
				m.front.show(f)
				m.isReady()
			}
		default:
			f.leader.set(l.Address)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if f != nil {
				f.platform.Drain()
			}
			m.front.drain()
			return nil, nil, nil
		case err := <-m.front.done:
			return nil, nil, &agon.Error{Code: "listen", Status: 409, Message: "the listener ended", Err: err}
		}
	}
}

// openFollower makes what answers at a follower; nil: the leader has not made
// its data directory yet.
func (m *member) openFollower(ctx context.Context, at seat, l store.Leader) (*follower, error) {
	d, err := kit.ShareData(m.o.Data)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if d.Audience != l.Data {
		return nil, &agon.Error{
			Code: "bad_setting", Status: http.StatusUnprocessableEntity, Field: "data", Message: fmt.Sprintf("the server at %s leads this database with another data directory than %s", l.Address, m.o.Data),
			Mend: "give all servers of a database the same data directory (on a volume that all mount), or this one its own database",
		}
	}
	return newFollower(ctx, m.o, at, d, m.address, l.Address)
}
