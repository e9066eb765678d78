package lies

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Endpoint is an HTTP server that answers each request with a kind of lie.
type Endpoint struct {
	URL   string
	kind  atomic.Pointer[Answer]
	count atomic.Int64

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// Answer is what an endpoint sends to a request that it has read. The connection is closed after it.
type Answer struct {
	Name string
	send func(w io.Writer, self string)
}

// Honest is an empty answer of success.
func Honest() Answer { return says("honest", "HTTP/1.1 204 No Content\r\n\r\n") }

func says(name, text string) Answer {
	return Answer{name, func(w io.Writer, _ string) { _, _ = io.WriteString(w, text) }}
}

// RedirectTo leads elsewhere.
func RedirectTo(url string) Answer {
	return says("elsewhere", "HTTP/1.1 307 Temporary Redirect\r\nLocation: "+url+"\r\n\r\n")
}

// repeats sends a piece after the text until the connection ends.
func repeats(name, text, piece string) Answer {
	return Answer{name, func(w io.Writer, _ string) {
		_, err := io.WriteString(w, text)
		for many := strings.Repeat(piece, max(1, 32<<10/len(piece))); err == nil; {
			_, err = io.WriteString(w, many)
		}
	}}
}

// HTTP lists what an endpoint may answer.
func HTTP() []Answer {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	return []Answer{
		{"silence", func(w io.Writer, _ string) { _, _ = io.Copy(io.Discard, w.(io.Reader)) }},
		repeats("an endless header", ok+"X-Long: ", "a"),
		repeats("endless headers", ok, "X-Many: a\r\n"),
		repeats("endless interim answers", "", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
		repeats("an endless body", ok+"\r\n", strings.Repeat(Hostile, 100)),
		repeats("endless chunks", ok+"Transfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n"),
		repeats("endless extensions of a chunk", ok+"Transfer-Encoding: chunked\r\n\r\n1;", "a"),
		repeats("an endless refusal", "HTTP/1.1 500 "+Hostile+"\r\n\r\n", Hostile),
		repeats("endless nesting", ok+"\r\n", "[{\"a\":"),
		repeats("an endless token", ok+"\r\n{\"access_token\":\"", "a"),
		repeats("a decompression bomb", ok+"Content-Encoding: gzip\r\n\r\n", bomb()),
		repeats("noise", "", "\x00\xff\x16\x03\x01"),
		says("negative length", ok+"Content-Length: -1\r\n\r\n"),
		says("another protocol", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		says("wait for ever", "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 99999999999\r\n\r\n"),
		says("wait for less than nothing", "HTTP/1.1 503 Service Unavailable\r\nRetry-After: -5\r\n\r\n"),
		says("nowhere", "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://169.254.169.254/"+Hostile+"\r\n\r\n"),
		says("to a file", "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n"),
		{"to itself", func(w io.Writer, self string) {
			_, _ = fmt.Fprintf(w, "HTTP/1.1 308 Permanent Redirect\r\nLocation: %s/again\r\n\r\n", self)
		}},
	}
}

// bomb is a MiB of zeros as a stream of gzip's, which may follow each other.
func bomb() string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(make([]byte, 1<<20))
	_ = w.Close()
	return b.String()
}

// StartEndpoint starts an honest one.
func StartEndpoint(t *testing.T) *Endpoint {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &Endpoint{URL: "http://" + l.Addr().String(), conns: map[net.Conn]bool{}}
	e.Answer(Honest())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			e.keep(conn, true)
			wg.Go(func() { e.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		e.mu.Lock()
		for conn := range e.conns {
			_ = conn.Close()
		}
		e.mu.Unlock()
		wg.Wait()
	})
	return e
}

func (e *Endpoint) keep(conn net.Conn, open bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if open {
		e.conns[conn] = true
	} else {
		delete(e.conns, conn)
	}
}

// Answer is what it answers from now on.
func (e *Endpoint) Answer(a Answer) {
	e.count.Store(0)
	e.kind.Store(&a)
}

// Count is how many requests it has answered so.
func (e *Endpoint) Count() int { return int(e.count.Load()) }

func (e *Endpoint) serve(conn net.Conn) {
	defer e.keep(conn, false)
	defer conn.Close()
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return
	}
	e.count.Add(1)
	e.kind.Load().send(conn, e.URL)
}
