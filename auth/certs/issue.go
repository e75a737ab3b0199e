package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/agon-arena/agon"
)

// Authority signs certificates for the machines of one operator.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// Life is from when until when a certificate is good.
type Life struct{ From, Until time.Time }

// NewAuthority makes an authority. Its certificate signs no other authority.
func NewAuthority(name string, l Life) (a *Authority, cert, key []byte, err error) {
	if err := CheckName(name); err != nil {
		return nil, nil, nil, err
	}
	t := template(name, l)
	t.IsCA, t.BasicConstraintsValid, t.MaxPathLenZero, t.KeyUsage = true, true, true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
	cert, key, err = sign(t, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	a, err = ReadAuthority(cert, key)
	return a, cert, key, err
}

// ReadAuthority reads an authority's certificate and key.
func ReadAuthority(cert, key []byte) (*Authority, error) {
	p, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	signer, ok := p.PrivateKey.(crypto.Signer)
	if !ok || !p.Leaf.IsCA {
		return nil, errors.New("it is not the certificate of an authority")
	}
	return &Authority{p.Leaf, signer}, nil
}

// Within is a life that ends with the authority's at the latest.
func (a *Authority) Within(l Life) Life {
	if l.Until.After(a.cert.NotAfter) {
		l.Until = a.cert.NotAfter
	}
	return l
}

// Issue makes a certificate and a key for name. With hosts (names and addresses)
// it can serve there; else it is good for callers only.
func (a *Authority) Issue(name string, hosts []string, l Life) (cert, key []byte, err error) {
	if err := CheckName(name); err != nil {
		return nil, nil, err
	}
	t := template(name, a.Within(l))
	t.KeyUsage, t.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else if u, err := url.Parse("https://" + h); err != nil || h == "" || u.Host != h || u.Port() != "" || strings.ContainsAny(h, "/@") {
			return nil, nil, &agon.Error{Code: "bad_field", Status: 422, Field: "host", Message: fmt.Sprintf("host %.80q is neither a name nor an address", h)}
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	if len(hosts) > 0 {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	return sign(t, a)
}

// CheckName says what is wrong with the name of a certificate's owner.
func CheckName(name string) error {
	odd := func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsGraphic(r) || strings.ContainsRune(`"'\,=+;<>`, r)
	}
	if name == "" || len(name) > 64 || strings.TrimSpace(name) != name || strings.ContainsFunc(name, odd) {
		return &agon.Error{Code: "bad_field", Status: 422, Field: "name", Limit: "64 bytes", Message: fmt.Sprintf("name %.80q: want 1 to 64 letters, digits, and any of . - _ / : @", name)}
	}
	return nil
}

func template(name string, l Life) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: l.From, NotAfter: l.Until}
}

// sign makes a key and its certificate, signed by a, or by itself.
func sign(t *x509.Certificate, a *Authority) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	parent, by := t, crypto.Signer(k)
	if a != nil {
		parent, by = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, &k.PublicKey, by) // it draws the serial number
	if err != nil {
		return nil, nil, err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil
}

// Owner is the name in a verified certificate: its only common name.
func Owner(c *x509.Certificate) (string, error) {
	var found []string
	for _, n := range c.Subject.Names {
		if n.Type.Equal([]int{2, 5, 4, 3}) {
			s, ok := n.Value.(string)
			if !ok {
				return "", errors.New("its common name is not text")
			}
			found = append(found, s)
		}
	}
	found = slices.Compact(found)
	if len(found) != 1 {
		return "", fmt.Errorf("it has %d common names: want one", len(found))
	}
	return found[0], CheckName(found[0])
}
