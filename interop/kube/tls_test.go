package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// authority makes one, a certificate for all servers of the release "arena", and the Secrets that the
// chart names: the certificate in the first namespace, the authority in each.
func (a *arena) authority(namespaces ...string) {
	a.t.Helper()
	dir := filepath.Join(a.dir, "ca")
	a.run(a.agon, "cert", "authority", "kube", "--dir", dir)
	a.run(a.agon, "cert", "issue", "server", "--dir", dir, "--out", dir, "--host", "arena-server", "--host", "arena-server.agon.svc", "--host", "*.arena-server-peers.agon.svc")
	a.ca = filepath.Join(dir, "ca.pem")
	for i, n := range namespaces {
		if i == 0 {
			a.kubectl("-n", n, "create", "secret", "tls", "agon-tls", "--cert="+filepath.Join(dir, "server.pem"), "--key="+filepath.Join(dir, "server-key.pem"))
		} else {
			a.kubectl("create", "namespace", n)
		}
		a.kubectl("-n", n, "create", "secret", "generic", "agon-ca", "--from-file=ca.crt="+a.ca)
	}
	a.client = &http.Client{Transport: a.transport("")}
}

// transport trusts the authority. Where it is given an address, it dials that and no other.
func (a *arena) transport(address string) *http.Transport {
	a.t.Helper()
	pem, err := os.ReadFile(a.ca)
	if err != nil {
		a.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	t := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	if address != "" {
		t.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	}
	return t
}

// known gives an address a name on this machine, as everybody outside of the pods reads it.
func (a *arena) known(name, address string) {
	a.t.Helper()
	f, err := os.OpenFile(need(a.t, "KUBE_HOSTS"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		a.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(f, "\n%s %s\n", address, name); err != nil {
		a.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		a.t.Fatal(err)
	}
}

// each asks every server, by the name at which the others reach it, for what the leader alone
// answers: one of them leads, the others pass it on.
func (a *arena) each() {
	a.t.Helper()
	list, err := a.api.CoreV1().Pods("agon").List(context.Background(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=server"})
	if err != nil {
		a.t.Fatal(err)
	}
	if len(list.Items) != 2 {
		a.t.Fatalf("%d servers, want 2", len(list.Items))
	}
	for _, pod := range list.Items {
		t := a.transport(net.JoinHostPort(pod.Status.PodIP, "8900"))
		r, err := (&http.Client{Transport: t}).Get("https://" + pod.Name + ".arena-server-peers.agon.svc:8900/v1/overview")
		if err != nil {
			a.t.Errorf("server %s: %v", pod.Name, err)
			continue
		}
		b, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		_ = r.Body.Close()
		t.CloseIdleConnections()
		if err != nil || r.StatusCode != http.StatusOK {
			a.t.Errorf("server %s: %s, %v, %.300s", pod.Name, r.Status, err, b)
		}
	}
}

// rolled replaces the servers one by one, while somebody asks them all the time, each time by a new
// connection: none of the requests may fail.
func (a *arena) rolled() {
	a.t.Helper()
	rolling, stop := context.WithCancel(context.Background())
	defer stop()
	asked, slowest, failed := 0, time.Duration(0), []error(nil)
	var asking sync.WaitGroup
	asking.Go(func() {
		t := a.transport("")
		t.DisableKeepAlives = true
		c := &http.Client{Transport: t, Timeout: 30 * time.Second}
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for ; rolling.Err() == nil; asked++ {
			began := time.Now()
			r, err := c.Get(a.url + "/v1/overview")
			if err == nil {
				_, err = io.Copy(io.Discard, r.Body)
				_ = r.Body.Close()
				if err == nil && r.StatusCode != http.StatusOK {
					err = fmt.Errorf("%s", r.Status)
				}
			}
			took := time.Since(began)
			slowest = max(slowest, took)
			if err != nil {
				failed = append(failed, fmt.Errorf("after %s: %w", took, err))
			}
			select {
			case <-rolling.Done():
			case <-tick.C:
			}
		}
	})
	a.kubectl("-n", "agon", "rollout", "restart", "statefulset/arena-server")
	a.kubectl("-n", "agon", "rollout", "status", "statefulset/arena-server", "--timeout=10m")
	stop()
	asking.Wait()
	a.t.Logf("while the servers were rolled %d of %d requests failed, the slowest took %s", len(failed), asked, slowest)
	for _, err := range failed[:min(5, len(failed))] {
		a.t.Errorf("while the servers were rolled: %v", err)
	}
}
