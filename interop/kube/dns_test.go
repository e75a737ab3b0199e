package kube

import (
	"context"
	"net"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// names answers the pods' questions for services, NAME.NAMESPACE.svc.cluster.local, by their
// addresses in the API: what CoreDNS does in other clusters.
func (c *cluster) names() {
	conn, err := net.ListenPacket("udp", node+":53")
	if err != nil {
		c.t.Fatal(err)
	}
	done := make(chan struct{})
	c.t.Cleanup(func() { _ = conn.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return // the test ends
			}
			if reply := c.reply(buf[:n]); reply != nil {
				_, _ = conn.WriteTo(reply, from) // who asked asks again
			}
		}
	}()
}

// reply answers one question; nil: it is not one.
func (c *cluster) reply(b []byte) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(b)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	h.Response, h.Authoritative, h.RCode = true, true, dnsmessage.RCodeNameError
	name, of, ok := strings.Cut(strings.TrimSuffix(q.Name.String(), ".svc.cluster.local."), ".")
	var ip net.IP
	if ok && strings.HasSuffix(q.Name.String(), ".svc.cluster.local.") {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if s, err := c.api.CoreV1().Services(of).Get(ctx, name, metav1.GetOptions{}); err == nil {
			ip, h.RCode = net.ParseIP(s.Spec.ClusterIP).To4(), dnsmessage.RCodeSuccess
		}
	}
	w := dnsmessage.NewBuilder(nil, h)
	if w.StartQuestions() != nil || w.Question(q) != nil || w.StartAnswers() != nil {
		return nil
	}
	if ip != nil && q.Type == dnsmessage.TypeA {
		if w.AResource(dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 5}, dnsmessage.AResource{A: [4]byte(ip)}) != nil {
			return nil
		}
	}
	out, err := w.Finish()
	if err != nil {
		return nil
	}
	return out
}
