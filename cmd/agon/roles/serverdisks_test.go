package roles

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/blob/s3"
	"github.com/agon-arena/agon/blob/s3/s3test"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/postgres/pgtest"
)

// smallDisk is a small file system of memory that can be filled.
type smallDisk struct {
	t         *testing.T
	at        string
	megabytes int
}

// newDisk mounts a file system of so many MB over dir.
func newDisk(t *testing.T, dir string, megabytes int) *smallDisk {
	t.Helper()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm,mode=755", megabytes), "agon-test", dir).CombinedOutput(); err != nil {
		t.Fatalf("mount a small disk: %v: %s (this test needs root)", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("unmount %s: %v: %s", dir, err, out)
		}
	})
	return &smallDisk{t: t, at: dir, megabytes: megabytes}
}

// fill leaves no space: the file system is made as small as what it holds.
func (d *smallDisk) fill() {
	d.t.Helper()
	var err error
	for range 100 { // what is written meanwhile makes it larger
		var use syscall.Statfs_t
		if err = syscall.Statfs(d.at, &use); err != nil {
			break
		}
		if err = d.resize(strconv.FormatInt(int64(use.Blocks-use.Bfree)*use.Bsize, 10)); err == nil {
			return
		}
	}
	d.t.Fatal(err)
}

// free gives the space back.
func (d *smallDisk) free() {
	d.t.Helper()
	if err := d.resize(fmt.Sprintf("%dm", d.megabytes)); err != nil {
		d.t.Fatal(err)
	}
}

func (d *smallDisk) resize(size string) error {
	if out, err := exec.Command("mount", "-o", "remount,size="+size, d.at).CombinedOutput(); err != nil {
		return fmt.Errorf("make the disk %s %s: %w: %s", d.at, size, err, out)
	}
	return nil
}

// newChaos makes a database, a bucket and a data directory, each on a small disk with more
// megabytes besides, that hosts on a bridge reach.
func newChaos(t *testing.T, more int) *chaos {
	t.Helper()
	small := func(pattern string, megabytes int) *smallDisk {
		dir, err := os.MkdirTemp("", pattern) // short: PostgreSQL has a socket in it
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return newDisk(t, dir, megabytes+more)
	}
	disks := map[string]*smallDisk{"rows": small("agon-pg-", 700), "data": small("agon-data-", 200), "bucket": small("agon-s3-", 200)}
	c := &chaos{disks: disks, cluster: &cluster{t: t, server: pgtest.StartIn(t, disks["rows"].at), dir: disks["data"].at, acked: map[string]bool{}, results: map[string]int{}}}
	c.run = c.start
	c.server.Exec(t, "postgres", "ALTER SYSTEM SET max_wal_size = '96MB'")
	c.server.Exec(t, "postgres", "ALTER SYSTEM SET wal_recycle = off") // no spare files: a full disk is felt
	c.server.Open(t, "10.213.77.0/24")
	c.at = c.server.Database(t)
	c.link = c.bridge()
	c.bucket = s3test.StartWith(t, s3test.Options{Host: host, Data: disks["bucket"].at})
	c.blobs = c.bucket.Bucket(t)
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(name, c.bucket.Getenv(name))
	}
	return c
}

// refusedWithin bounds the wait until somebody is refused because of a fault: where the
// fault stops nothing that is asked for, the round is over then.
const refusedWithin = 15 * time.Second

// during breaks something while a run is queued or played, submits and registers meanwhile,
// and mends it when somebody was refused, or all was taken all the same. Then it must be taken.
func (c *chaos) during(broke, mend func()) time.Duration {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	c.entered += 3
	n := c.entered
	m, err := c.join(ctx, n)
	if err == nil {
		err = c.enter(ctx, n-1)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	was := c.refused.Load()
	broke()
	submitted := make(chan error, 1)
	go func() {
		err := c.submitAs(ctx, m, n)
		if err == nil {
			err = c.enter(ctx, n-2) // a registration is a write of the ledger
		}
		submitted <- err
	}()
	end := time.Now().Add(refusedWithin)
	for c.refused.Load() == was && time.Now().Before(end) && len(submitted) == 0 {
		time.Sleep(20 * time.Millisecond) // refusals are counted where they come
	}
	if c.refused.Load() > was {
		c.felt.Add(1)
	}
	mend()
	c.revive()
	c.leader()
	if err := <-submitted; err != nil {
		c.t.Errorf("submitted while something was broken: %v", err)
	}
	return 0
}

// revive starts the servers that ended because of a fault, as systemd or Kubernetes does.
func (c *chaos) revive() {
	c.t.Helper()
	for i, s := range c.list {
		if s.gone() {
			c.ended++
			c.restart(i)
		}
	}
}

// bytesFaults are those of the places of bytes: the S3 server's death, and full disks
// under the servers' data, the database and the S3 server.
func (c *chaos) bytesFaults() map[string]func() time.Duration {
	full := func(d *smallDisk) func() time.Duration {
		return func() time.Duration { return c.during(d.fill, d.free) }
	}
	return map[string]func() time.Duration{
		"S3 server killed": func() time.Duration {
			c.bucket.Kill()
			c.bucket.Up(c.t)
			c.leader()
			return 0
		},
		"S3 server away":        func() time.Duration { return c.during(c.bucket.Kill, func() { c.bucket.Up(c.t) }) },
		"S3 server's disk full": full(c.disks["bucket"]),
		"servers' disk full":    full(c.disks["data"]),
		// PostgreSQL ends itself when it cannot write its log; the next file of that is due at once.
		"database's disk full": func() time.Duration {
			d := c.disks["rows"]
			return c.during(func() {
				d.fill()
				_ = c.server.Try("postgres", "SELECT pg_switch_wal()") // it may be down already
			}, func() { d.free(); c.server.Kill(c.t); c.server.Up(c.t) })
		},
	}
}

// compareBytes reads every byte that was acknowledged: the files of submissions and the
// evidence of results that count.
func (c *chaos) compareBytes(st *store.Store) {
	t := c.t
	t.Helper()
	blobs, err := s3.Open(t.Context(), c.blobs, s3.Options{Getenv: os.Getenv, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	tree := func(what string, d agon.Digest) {
		m, err := blob.GetManifest(t.Context(), blobs, d, blob.TreeLimits{})
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		for _, f := range m.Files {
			if _, err := blobs.Get(t.Context(), f.Digest); err != nil {
				t.Errorf("%s, file %s: %v", what, f.Path, err)
			}
			n++
		}
	}
	if err := st.Read(t.Context(), func(tx *store.Tx) error {
		for _, a := range c.history {
			switch a.What {
			case "submitted":
				e, err := tx.Entry(a.ID)
				if err != nil {
					return err
				}
				tree("submission "+a.ID, e.Digest)
			case "counted":
				tree("evidence of run "+a.Run, a.Evidence)
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	t.Logf("%d acknowledged files read back", n)
}
