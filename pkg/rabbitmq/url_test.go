package rabbitmq

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever stands raw in a password, no part of it is printed: neither by an error nor as a host, a path or an option.
func TestNoPartOfAPasswordIsPrinted(t *testing.T) {
	t.Parallel()
	for _, password := range []string{
		"se@cret", "se/cret", "12/cret", "12/cret?cret", "se#cret", "12#cret", "#cret", "se?cret", "12?cret", "12?cret&cret=cret", "12?heartbeat=cret",
		"se%cret", "12%cret", "%zzcret", "se cret", "12 cret", "se:cret", "12:cret", "[cret", "12]cret", "se\\cret", "se\ncret", "cret@12/", "@cret/@", "12/@cret",
		"se\"cret", "se<cret>", "se`cret", "sécret", "12%2fcret", "se%63ret", "/cret", "//cret", "12/;cret", "99999/cret",
	} {
		for _, form := range []string{"amqp://user:%@127.0.0.1:5672/", "amqps://user:%@localhost", "amqp://%@127.0.0.1:5672/vhost?heartbeat=1", "amqp://user:%@127.0.0.1:99999/"} {
			var u URL
			err := u.UnmarshalText([]byte(strings.Replace(form, "%", password, 1)))
			printed := u.String()
			if err != nil {
				printed = err.Error()
			}
			if strings.HasPrefix(form, "amqp://%") && err == nil && !strings.Contains(printed, "xxxxx") {
				continue // without a colon it is a user name
			}
			if strings.Contains(printed, "cret") {
				t.Errorf("%s: printed %s", password, printed)
			}
		}
	}
}

// pemFile writes a block and returns the file's name.
func pemFile(t *testing.T, name, kind string, der []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// newCertificate makes a certificate and its key.
func newCertificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pemFile(t, "cert.pem", "CERTIFICATE", certificate), pemFile(t, "key.pem", "PRIVATE KEY", der)
}

// A file that cannot be used is found when the URL is read, not at each connection.
func TestFilesAreReadWithTheURL(t *testing.T) {
	t.Parallel()
	cert, key := newCertificate(t)
	_, otherKey := newCertificate(t)
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := pemFile(t, "broken.pem", "CERTIFICATE", []byte("no certificate"))
	for query, ok := range map[string]bool{
		"":                                      true,
		"?cacertfile=" + cert:                   true,
		"?certfile=" + cert + "&keyfile=" + key: true,
		"?cacertfile=" + cert + "&certfile=" + cert + "&keyfile=" + key: true,
		"?cacertfile=/nowhere":                        false,
		"?cacertfile=" + t.TempDir():                  false,
		"?cacertfile=" + text:                         false,
		"?cacertfile=" + key:                          false,
		"?cacertfile=" + broken:                       false,
		"?cacertfile=":                                false,
		"?cacertfile=" + cert + "&cacertfile=" + text: false,
		"?certfile=" + cert:                           false,
		"?keyfile=" + key:                             false,
		"?certfile=" + cert + "&keyfile=/nowhere":     false,
		"?certfile=/nowhere&keyfile=" + key:           false,
		"?certfile=" + cert + "&keyfile=" + otherKey:  false,
		"?certfile=" + key + "&keyfile=" + cert:       false,
		"?certfile=" + text + "&keyfile=" + key:       false,
	} {
		for _, scheme := range []string{"amqp", "amqps"} {
			var u URL
			err := u.UnmarshalText([]byte(scheme + "://u:secret@127.0.0.1:1/" + query))
			if (err == nil) != ok || err != nil && (strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "secret")) {
				t.Errorf("%s %s: %v", scheme, query, err)
			}
		}
	}
}
