package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// encrypted gives the server a certificate of its own making.
func encrypted(ctx context.Context, b *bed) (func(), error) {
	if err := writeCertificate(b.postgres.DataDir()); err != nil {
		return nil, err
	}
	if err := b.postgres.Configure(ctx, map[string]string{"ssl": "on"}); err != nil {
		return nil, err
	}
	b.clientDSN = strings.Replace(b.dsn, "sslmode=disable", "sslmode=require", 1)
	if err := b.awaitClientDSN(ctx); err != nil {
		return nil, err
	}
	return func() { b.clientDSN = b.dsn }, nil
}

// writeCertificate writes the server's key and certificate under the names that it looks for, as files of its account.
func writeCertificate(data string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	for name, block := range map[string]*pem.Block{
		"server.crt": {Type: "CERTIFICATE", Bytes: der}, "server.key": {Type: "PRIVATE KEY", Bytes: pkcs8},
	} {
		path := filepath.Join(data, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			return err
		}
		if err := ownLike(data, path); err != nil {
			return err
		}
	}
	return nil
}

// overUnixSocket uses the socket in the data directory.
func overUnixSocket(ctx context.Context, b *bed) (func(), error) {
	b.clientDSN = fmt.Sprintf("postgres://postgres@/postgres?host=%s&port=%d&sslmode=disable",
		url.QueryEscape(b.postgres.DataDir()), b.postgres.Port())
	undo := func() { b.clientDSN = b.dsn }
	if err := b.awaitClientDSN(ctx); err != nil {
		undo()
		return nil, fmt.Errorf("%w: %w", errSkipped, err)
	}
	return undo, nil
}
