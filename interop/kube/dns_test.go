package kube

import (
	"context"
	"net"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// names answers the pods' questions for services, NAME.NAMESPACE.svc.cluster.local, and for pods of
// headless ones, by their addresses in the API: what CoreDNS does in other clusters.
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

// address finds a service, NAME.NAMESPACE, or a pod of a headless one, POD.NAME.NAMESPACE.
func (c *cluster) address(labels []string) (at string, there bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	switch len(labels) {
	case 2:
		s, err := c.api.CoreV1().Services(labels[1]).Get(ctx, labels[0], metav1.GetOptions{})
		if err != nil {
			return "", false
		}
		return s.Spec.ClusterIP, true
	case 3:
		list, err := c.api.DiscoveryV1().EndpointSlices(labels[2]).List(ctx, metav1.ListOptions{LabelSelector: discovery.LabelServiceName + "=" + labels[1]})
		if err != nil {
			return "", false
		}
		for _, slice := range list.Items {
			for _, e := range slice.Endpoints {
				if e.Hostname != nil && *e.Hostname == labels[0] && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
					return e.Addresses[0], true
				}
			}
		}
	}
	return "", false
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
	var ip net.IP
	if name, ok := strings.CutSuffix(q.Name.String(), ".svc.cluster.local."); ok {
		if at, there := c.address(strings.Split(name, ".")); there {
			ip, h.RCode = net.ParseIP(at).To4(), dnsmessage.RCodeSuccess
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
