package play

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// Agents that were written for a provider call it by its name over HTTPS. In the
// agent's box these names lead to the gateway, too, with the same rules, budget and
// receipts: a door ends the TLS with a certificate of an authority that was made for
// this box, that no other box trusts, and whose keys never leave this process.
var (
	providers = []string{"openrouter.ai", "api.openai.com", "llm.chutes.ai"}
	caFile    = caDir + "/ca.pem"
)

const caDir = "/agon-ca"

// caEnv names the authority to the libraries that read their own list of authorities.
var caEnv = []string{
	"SSL_CERT_FILE=" + caFile, "REQUESTS_CA_BUNDLE=" + caFile, "CURL_CA_BUNDLE=" + caFile, "NODE_EXTRA_CA_CERTS=" + caFile,
}

// hosts is what a box needs for the providers' names; nothing where an arena leaves them out.
type hosts struct {
	names  []string
	doors  []sandbox.Door
	mounts []sandbox.Mount
	dir    string
}

// close removes what secure wrote.
func (h *hosts) close() {
	if h.dir != "" {
		_ = os.RemoveAll(h.dir)
	}
}

// secure makes the door that stands under the providers' names, of the gateway's
// first one; none where there is none. Close it when the box is gone.
func secure(gate []sandbox.Door) (*hosts, error) {
	ca, conf, err := authority(providers)
	if err != nil {
		return nil, fmt.Errorf("make the box's authority: %w", err)
	}
	dir, err := tempdir.Make("ca")
	if err != nil {
		return nil, err
	}
	h := &hosts{names: providers, dir: dir, mounts: []sandbox.Mount{{Kind: sandbox.MountReadOnly, Source: dir, Target: caDir}}}
	if err = os.Chmod(dir, 0o755); err == nil {
		err = os.WriteFile(filepath.Join(dir, filepath.Base(caFile)), ca, 0o644)
	}
	if err != nil {
		h.close()
		return nil, fmt.Errorf("write the box's authority: %w", err)
	}
	if len(gate) > 0 {
		d := gate[0]
		d.Listen, d.TLS = "127.0.0.1:443", conf
		h.doors = []sandbox.Door{d}
	}
	return h, nil
}

// authority makes a certificate for hosts, and the authority that signs it and
// nothing else. Its dates are wide: it ends with the box.
func authority(hosts []string) (ca []byte, conf *tls.Config, err error) {
	from, to := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC)
	top := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "agon, for one box"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: hosts,
	}
	topKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	topRaw, err := x509.CreateCertificate(rand.Reader, top, top, topKey.Public(), topKey)
	if err != nil {
		return nil, nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: hosts[0]}, NotBefore: from, NotAfter: to, DNSNames: hosts,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if top, err = x509.ParseCertificate(topRaw); err != nil {
		return nil, nil, err
	}
	raw, err := x509.CreateCertificate(rand.Reader, leaf, top, key.Public(), topKey)
	if err != nil {
		return nil, nil, err
	}
	conf = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: topRaw}), conf, nil
}
