package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
)

// poster makes one request.
type poster interface {
	post(ctx context.Context, url string, body []byte) error
	close()
}

// refusal is an answer that another attempt would get as well.
type refusal struct{ status int }

func (r refusal) Error() string { return fmt.Sprintf("the answer is %d", r.status) }

type client struct{ http *http.Client }

func newClient() *client {
	return &client{&http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: requestTimeout,
			MaxIdleConnsPerHost: 1,
		},
		Timeout: requestTimeout,
		// A POST that is redirected becomes a GET, which delivers nothing.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

func (c *client) post(ctx context.Context, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL is not one") // the error has it
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "cdc-outbox")
	resp, err := c.http.Do(req)
	if err != nil {
		return plain(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusBadRequest, code == http.StatusRequestEntityTooLarge,
		code == http.StatusUnprocessableEntity:
		return refusal{code}
	default:
		return fmt.Errorf("the answer is %d", code)
	}
}

// plain describes the failure without the URL, the host or the other details of an error of net/http.
func plain(err error) error {
	var (
		timeout net.Error
		name    *net.DNSError
		cert    *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
	)
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("it was cut off by the end of the process")
	case errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("there was no answer in time")
	case errors.As(err, &name):
		return errors.New("the host's name cannot be resolved")
	case errors.As(err, &cert), errors.As(err, &unknown):
		return errors.New("the host's certificate is not trusted")
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("connection refused")
	default:
		return errors.New("the request failed")
	}
}
