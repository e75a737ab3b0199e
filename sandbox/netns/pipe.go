package netns

import (
	"context"
	"io"
	"net"
	"sync"
)

// pipes are the connections through a door that passes bytes.
type pipes struct {
	l      net.Listener
	cancel context.CancelFunc
	all    sync.WaitGroup
}

// pass takes the connections of l to what dial connects to, until it is closed.
func pass(l net.Listener, dial func(context.Context) (net.Conn, error)) *pipes {
	ctx, cancel := context.WithCancel(context.Background())
	p := &pipes{l: l, cancel: cancel}
	p.all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			p.all.Go(func() { join(ctx, in, dial) })
		}
	})
	return p
}

// close ends all connections, and returns when they have.
func (p *pipes) close() error {
	p.cancel()
	err := p.l.Close()
	p.all.Wait()
	return err
}

// join passes bytes both ways until both sides have ended, or ctx has. An end of
// one side's bytes reaches the other as such: the other may go on.
func join(ctx context.Context, in net.Conn, dial func(context.Context) (net.Conn, error)) {
	defer in.Close()
	out, err := dial(ctx)
	if err != nil {
		return // whoever called sees the connection end
	}
	defer out.Close()
	stop := context.AfterFunc(ctx, func() {
		_ = in.Close()
		_ = out.Close()
	})
	defer stop()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{out, in}, {in, out}} {
		both.Go(func() {
			_, err := io.Copy(way[0], way[1])
			if c, ok := way[0].(interface{ CloseWrite() error }); ok && err == nil {
				_ = c.CloseWrite()
				return
			}
			_ = way[0].Close() // what broke, or cannot be half closed, ends both ways
			_ = way[1].Close()
		})
	}
	both.Wait()
}
