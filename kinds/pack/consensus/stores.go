package consensus

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
)

// Store keeps payloads by content. Safe for concurrent use.
type Store interface {
	// Put stores b and returns its address; the same bytes have the same one.
	// They can be read by others when it returns.
	Put(ctx context.Context, b []byte) (address string, err error)
	// Get returns what lies at an address, at most MaxPayload bytes, and where it
	// came from. The caller checks the hash, and bounds the time.
	Get(ctx context.Context, address string) (b []byte, source string, err error)
}

// ErrNotHere says that a store does not have what an address names.
var ErrNotHere = errors.New("no payload at that address")

// Verify reports whether b is what an address names: by SHA-256, at the end of
// a URL too, or by the content id of a payload in one block. Addresses that
// name nothing (other URLs) cannot be checked.
func Verify(address string, b []byte) bool {
	if m := urlDigest().FindStringSubmatch(address); m != nil {
		address = m[1]
	}
	if d, ok := strings.CutPrefix(address, agon.DigestPrefix); ok {
		h := sha256.Sum256(b)
		return d == hex.EncodeToString(h[:])
	}
	return address == CIDv1(b) || address == CIDv0(b)
}

// CIDv1 is the content id of b as one raw block.
func CIDv1(b []byte) string {
	h := sha256.Sum256(b)
	return "b" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(append([]byte{1, 0x55, 0x12, 0x20}, h[:]...)))
}

// CIDv0 is the older content id of b: a file of one block.
func CIDv0(b []byte) string {
	field := func(out []byte, tag byte, data []byte) []byte {
		return append(binary.AppendUvarint(append(out, tag), uint64(len(data))), data...)
	}
	file := append([]byte{0x08, 2}, field(nil, 0x12, b)...)
	file = binary.AppendUvarint(append(file, 0x18), uint64(len(b)))
	h := sha256.Sum256(field(nil, 0x0a, file))
	return base58(append([]byte{0x12, 0x20}, h[:]...))
}

func base58(b []byte) string {
	const digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	n, m, base := new(big.Int).SetBytes(b), new(big.Int), big.NewInt(58)
	var out []byte
	for n.Sign() > 0 {
		n.DivMod(n, base, m)
		out = append([]byte{digits[m.Int64()]}, out...)
	}
	return string(out)
}

// Folder keeps payloads as files that several validators share.
type Folder struct{ Dir string }

// Put implements Store.
func (f Folder) Put(_ context.Context, b []byte) (string, error) {
	d := agon.Sum(b)
	if err := os.MkdirAll(f.Dir, 0o755); err != nil {
		return "", fmt.Errorf("store payload: %w", err)
	}
	return string(d), writeAtomic(filepath.Join(f.Dir, d.Hex()+".json"), b)
}

// Get implements Store.
func (f Folder) Get(_ context.Context, address string) ([]byte, string, error) {
	d := agon.Digest(address)
	if d.Validate() != nil {
		return nil, "", ErrNotHere
	}
	r, err := os.Open(filepath.Join(f.Dir, d.Hex()+".json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, "", ErrNotHere
	}
	if err != nil {
		return nil, "", fmt.Errorf("read payload: %w", err)
	}
	defer func() { _ = r.Close() }()
	b, err := readPayload(r)
	return b, "folder", err
}

func readPayload(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxPayload+1))
	if err != nil {
		return nil, fmt.Errorf("read payload: %w", err)
	}
	if len(b) > MaxPayload {
		return nil, bad("size", fmt.Sprintf("%d bytes", MaxPayload), "it is larger")
	}
	return b, nil
}

// writeAtomic writes a whole file or none of it, durably.
func writeAtomic(path string, b []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(b)
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return os.Rename(tmp.Name(), path)
}

// S3 keeps payloads in a bucket of an S3-compatible store.
type S3 struct {
	Client *minio.Client
	Bucket string
	Prefix string
}

// NewS3 opens a bucket: s3://BUCKET/PREFIX, with the usual variables
// (S3_ENDPOINT_URL, S3_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY).
func NewS3(at string, getenv func(string) string) (*S3, error) {
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "s3" || u.Host == "" {
		return nil, fmt.Errorf("store %.80q: want s3://BUCKET/PREFIX", at)
	}
	endpoint, secure := "s3.amazonaws.com", true
	if e := getenv("S3_ENDPOINT_URL"); e != "" {
		eu, err := url.Parse(e)
		if err != nil || eu.Host == "" {
			return nil, fmt.Errorf("S3_ENDPOINT_URL %.80q is not an address", e)
		}
		endpoint, secure = eu.Host, eu.Scheme == "https"
	}
	region := getenv("S3_REGION")
	if region == "" {
		region = "us-east-1"
	}
	c, err := minio.New(endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(getenv("AWS_ACCESS_KEY_ID"), getenv("AWS_SECRET_ACCESS_KEY"), ""), Secure: secure, Region: region,
		BucketLookup: minio.BucketLookupPath,
	})
	if err != nil {
		return nil, fmt.Errorf("open bucket: %w", err)
	}
	return &S3{Client: c, Bucket: u.Host, Prefix: strings.Trim(u.Path, "/")}, nil
}

func (s *S3) key(d agon.Digest) string {
	if s.Prefix == "" {
		return d.Hex() + ".json"
	}
	return s.Prefix + "/" + d.Hex() + ".json"
}

// Put implements Store.
func (s *S3) Put(ctx context.Context, b []byte) (string, error) {
	d := agon.Sum(b)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if _, err := s.Client.PutObject(ctx, s.Bucket, s.key(d), bytes.NewReader(b), int64(len(b)), minio.PutObjectOptions{ContentType: "application/json"}); err != nil {
		return "", fmt.Errorf("store payload: %w", err)
	}
	return string(d), nil
}

// Get implements Store.
func (s *S3) Get(ctx context.Context, address string) ([]byte, string, error) {
	d := agon.Digest(address)
	if d.Validate() != nil {
		return nil, "", ErrNotHere
	}
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	o, err := s.Client.GetObject(ctx, s.Bucket, s.key(d), minio.GetObjectOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("read payload: %w", err)
	}
	defer func() { _ = o.Close() }()
	b, err := readPayload(o)
	if minio.ToErrorResponse(errors.Unwrap(err)).Code == "NoSuchKey" {
		return nil, "", ErrNotHere
	}
	return b, "s3", err
}

// IPFS keeps payloads in IPFS, by the HTTP API of a node, and reads them from
// gateways where the node does not have them.
type IPFS struct {
	API      string   // with /api/v0
	Gateways []string // tried in order
	Client   *http.Client
}

func (s *IPFS) client() *http.Client {
	if s.Client != nil {
		return s.Client
	}
	return &http.Client{Timeout: 60 * time.Second}
}

// Put implements Store. The address is checked: a node that answers another
// content id would make everybody drop the payload.
func (s *IPFS) Put(ctx context.Context, b []byte) (string, error) {
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	part, err := w.CreateFormFile("file", "payload.json")
	if err == nil {
		_, err = part.Write(b)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return "", fmt.Errorf("write form: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(s.API, "/")+"/add?cid-version=1&raw-leaves=true&pin=true", &body)
	if err != nil {
		return "", fmt.Errorf("add to IPFS: %w", err)
	}
	req.Header.Set("Content-Type", w.FormDataContentType())
	resp, err := s.client().Do(req)
	if err != nil {
		return "", fmt.Errorf("add to IPFS: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("add to IPFS: status %d", resp.StatusCode)
	}
	var out struct{ Hash string }
	if err := json.Unmarshal(raw, &out); err != nil || !Verify(out.Hash, b) {
		return "", fmt.Errorf("add to IPFS: the node answers content id %.80q, which is not of these bytes", out.Hash)
	}
	return out.Hash, nil
}

// Get implements Store.
func (s *IPFS) Get(ctx context.Context, address string) ([]byte, string, error) {
	if strings.ContainsAny(address, "/?#%:") || address == "" {
		return nil, "", ErrNotHere
	}
	get := func(method, at, source string) place {
		return func(ctx context.Context) ([]byte, string, error) {
			req, err := http.NewRequestWithContext(ctx, method, at, nil)
			if err != nil {
				return nil, "", fmt.Errorf("read from IPFS: %w", err)
			}
			resp, err := s.client().Do(req)
			if err != nil {
				return nil, "", fmt.Errorf("read from IPFS: %w", err)
			}
			defer func() { _ = resp.Body.Close() }()
			b, err := readPayload(resp.Body)
			switch {
			case resp.StatusCode != http.StatusOK:
				err = fmt.Errorf("status %d", resp.StatusCode)
			case err == nil && !Verify(address, b):
				err = errors.New("other bytes than the address names")
			}
			if err != nil {
				return nil, "", fmt.Errorf("read from IPFS: %s: %w", req.URL.Host, err)
			}
			return b, source, nil
		}
	}
	places := []place{get(http.MethodPost, strings.TrimRight(s.API, "/")+"/cat?arg="+url.QueryEscape(address), "ipfs")}
	for _, g := range s.Gateways {
		places = append(places, get(http.MethodGet, strings.TrimRight(g, "/")+"/ipfs/"+url.PathEscape(address), g))
	}
	return firstOf(ctx, places)
}

// OpenStore opens a store by its address: a folder, s3://BUCKET/PREFIX,
// ipfs+http://HOST/api/v0, https://SERVER (which signer signs for), or several
// of them with commas.
func OpenStore(at string, getenv func(string) string, signer auth.Signer, now func() time.Time) (Store, error) {
	if first, rest, several := strings.Cut(at, ","); several {
		var all Both
		for _, one := range append([]string{first}, strings.Split(rest, ",")...) {
			s, err := OpenStore(strings.TrimSpace(one), getenv, signer, now)
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
		return all, nil
	}
	switch {
	case strings.HasPrefix(at, "http://"), strings.HasPrefix(at, "https://"):
		if signer == nil {
			return nil, &agon.Error{Code: "usage", Status: 400, Field: "store", Message: "a server as the store needs a key"}
		}
		return &Server{URL: strings.TrimRight(at, "/"), Signer: signer, Now: now}, nil
	case at == "":
		return nil, &agon.Error{Code: "usage", Status: 400, Field: "store", Message: "no content store is named", Mend: "name a folder, s3://BUCKET/PREFIX, ipfs+http://HOST:5001/api/v0 or https://SERVER; several with commas"}
	case strings.HasPrefix(at, "s3://"):
		return NewS3(at, getenv)
	case strings.HasPrefix(at, "ipfs+http://"), strings.HasPrefix(at, "ipfs+https://"):
		s := &IPFS{API: strings.TrimPrefix(at, "ipfs+")}
		for g := range strings.SplitSeq(getenv("IPFS_GATEWAYS"), ",") {
			if g = strings.TrimSpace(g); g != "" {
				s.Gateways = append(s.Gateways, g)
			}
		}
		return s, nil
	}
	return Folder{at}, nil
}
