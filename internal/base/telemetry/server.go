package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// shutdownGrace is how long answers under way may take once the process is asked to stop.
const shutdownGrace = 2 * time.Second

// Handlers are the sources of the server's answers. All fields but Page are required; the functions are called from
// many goroutines.
type Handlers struct {
	Metrics prometheus.Gatherer
	Ready   func() (ok bool, why string) // why is one sentence, also when ok
	Status  func() any                   // marshalled as JSON
	// answers all other requests, and may set a Content-Security-Policy of its own; nil: there is none
	Page http.Handler
}

// Server is a bound HTTP server that does not answer yet.
type Server struct {
	listener net.Listener
	http     *http.Server
}

// Listen binds the address, so that one that is taken is known before anything else starts. The caller must call Run,
// which closes it.
func Listen(ctx context.Context, address string, h Handlers) (*Server, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, &fault.Error{
			Kind: fault.Config, Object: fmt.Sprintf("http.listen %q", address), Err: unwrapped(err),
			Next: "Choose another http.listen, or stop the process that holds this address.",
		}
	}
	return &Server{listener: l, http: &http.Server{
		Handler: localNamesOnly(l.Addr(), NewHandler(h)),
		// A reader that is slow or has disconnected must not hold a goroutine for ever.
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}}, nil
}

// unwrapped strips net.OpError, whose text repeats the address.
func unwrapped(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// Addr is the address the server is bound to, with the port the system chose if the configured one was 0.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Run answers until ctx ends, then finishes requests under way, for two seconds at most. It returns nil after ctx
// ended.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- s.http.Serve(s.listener) }()
	select {
	case err := <-failed:
		return &fault.Error{Kind: fault.Fatal, Object: "HTTP server " + s.Addr(), Err: err}
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := s.http.Shutdown(grace); err != nil {
		_ = s.http.Close() // the grace is over: an answer that takes longer is cut off
	}
	<-failed
	return nil
}

// NewHandler returns the endpoints. They only read, so everything but GET and HEAD is refused.
func NewHandler(h Handlers) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(h.Metrics, promhttp.HandlerOpts{
		MaxRequestsInFlight: 8, Timeout: 20 * time.Second,
		EnableOpenMetrics: true, // for scrapers that ask for it: only OpenMetrics has exemplars
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		ok, why := h.Ready()
		if ok {
			text(w, http.StatusOK, why)
			return
		}
		text(w, http.StatusServiceUnavailable, why)
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		body, err := json.MarshalIndent(h.Status(), "", "  ")
		if err != nil {
			text(w, http.StatusInternalServerError, "the status cannot be written as JSON")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(fault.Escaped(body), '\n')) // an error means that the reader went away
	})
	if h.Page != nil {
		mux.Handle("GET /", h.Page)
		return secure(mux)
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		text(w, http.StatusOK, "cdc-outbox: /status, /readyz, /healthz, /metrics")
	})
	return secure(mux)
}

func text(w http.ResponseWriter, code int, s string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = fmt.Fprintln(w, fault.PrintableLines(s)) // an error means that the reader went away
}

// secure sets the headers that keep a browser from doing anything with the answers but show them.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Cache-Control", "no-store")
		head.Set("Content-Security-Policy",
			"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("X-Frame-Options", "DENY")
		next.ServeHTTP(w, r)
	})
}
